"""Questions of notebook 02, weight conversion."""

from __future__ import annotations

import re
from typing import Any

from mindport.exercises.exercise import Exercise, words

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
}


def _sizes(answer: Any) -> list[float]:
    return [float(size) for size in (re.findall(r"\d+", answer) if isinstance(answer, str) else answer)]
