"""Questions of notebook 02, weight conversion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mindport.config import ModelConfig
from mindport.config.dialect import Dialect
from mindport.exercises.exercise import Exercise, words
from mindport.weights import plan, with_name
from mindport.weights.names import pattern

EXERCISES = {
    "02.shape": Exercise(
        question="In a GPT-2 file, h.0.mlp.c_fc.weight has shape [768, 3072]. "
        "Which shape has blocks.0.mlp.up.weight on the MindSpore side?",
        check=lambda answer: _sizes(answer) == [3072, 768],
        hints=("GPT-2's Conv1D computes x @ W.", "MindPort keeps every linear weight [out, in]."),
        solution="[3072, 768]: Conv1D stores [in, out], a linear map [out, in]. "
        "The square c_proj is turned as well, though its shape does not show it.",
        expects="two whole numbers in a list",
    ),
    "02.bias": Exercise(
        question="h.0.attn.c_attn.bias of a GPT-2 that is 768 wide has 2304 numbers: those of q, k and v. "
        "At which index (from 0) does the bias of v begin?",
        check=lambda answer: float(answer) == 2 * 768,
        hints=(
            "q comes first, then k, then v.",
            "GPT-2 has no grouped queries: q, k and v are equally long.",
        ),
        solution="1536: q is 0 to 767, k is 768 to 1535, v the rest.",
        expects="a whole number",
    ),
    "02.proof": Exercise(
        question="By mistake a table maps k_proj to attn.v and v_proj to attn.k; their shapes are equal. Which is the "
        'first check that turns red: "shapes", "accounting", "read back", "round trip", or "parity" (notebook 03)?',
        check=lambda answer: (
            "parity" in words(answer) and not words(answer) & {"shapes", "accounting", "read", "round"}
        ),
        hints=(
            "The way back goes through the same table.",
            "A mistake that is undone on the way back leaves every byte where it was.",
        ),
        solution='"parity": names and shapes fit, every tensor is consumed and written once, the file holds what was '
        "meant, and the way back swaps the two again. Only computing with the weights tells k from v.",
        expects="one of the five words",
    ),
    "02.repair": Exercise(
        question="The table `broken` has one wrong name, in the row of blocks.{}.attn.o.weight. "
        "Write the name that makes the accounts close, as the family's files have it, {} for the layer.",
        check=lambda answer, broken, config, shapes: _closes(answer, broken, config, shapes),
        hints=(
            "Each row of the table is missing or found, each tensor of the files unexpected or used.",
            "Missing is the table's wrong name. The right one is listed as unexpected; its number is a layer's.",
        ),
        solution="The unexpected name, with {} for the layer: in a llama model.layers.{}.self_attn.o_proj.weight, in a "
        "GPT-2 h.{}.attn.c_proj.weight. Nothing is missing then, and nothing unexpected.",
        expects='a name as text, such as "model.layers.{}.mlp.up_proj.weight"',
    ),
}
WRONG_ROW = "blocks.{}.attn.o.weight"


def _closes(answer: str, broken: Dialect, config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the table with this name plans; raises `MappingError` with what is left over."""
    name = pattern(answer.strip()).removeprefix(broken.prefix)  # a name with a layer's number is as right
    return bool(plan(with_name(broken, WRONG_ROW, name), config, shapes).steps)


def _sizes(answer: Any) -> list[float]:
    return [float(size) for size in (re.findall(r"\d+", answer) if isinstance(answer, str) else answer)]
