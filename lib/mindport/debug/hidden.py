"""Models with one fault that a seed chose, for the exercises of notebook 04: find it with the tools, not by reading.

    puzzle = plant_hidden(seed=7, level=1)
    puzzle.model, puzzle.loss, puzzle.batch        a small LLaMA, its training loss, and (ids, labels)

Level 1: the loss is not finite. Level 2: it is, and falls, but one part of a layer does not learn. Level 3: all is
finite, everything learns, and the model is a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mindport.debug.spoil import spoil
from mindport.errors import UsageError

if TYPE_CHECKING:
    from mindspore import Tensor, nn

    from mindport.model import GPT

LINEARS = ("attn.q", "attn.k", "attn.v", "mlp.gate", "mlp.up")  # after a norm, so that what they are given is about 1
PARTS = ("attn", "mlp")
SILENT = ("mask", "shift", "positions")
BATCH, TOKENS = 2, 24
HUGE = 3e38  # an entry of a weight whose products overflow float32


@dataclass(frozen=True)
class Puzzle:
    """A model with a hidden fault.

    Attributes:
        level: 1 to 3.
        model: the model; its attention and everything else in plain operators.
        loss: (ids, labels) → scalar, through the model.
        batch: ids and labels, int32 (B, T).
        answer: the module, or the kind of fault; not shown.
    """

    level: int
    model: GPT = field(repr=False)
    loss: nn.Cell = field(repr=False)
    batch: tuple[Tensor, Tensor] = field(repr=False)
    answer: str = field(repr=False)


def plant_hidden(seed: int, level: int) -> Puzzle:
    """A small model with a fault that the seed chooses.

    Args:
        seed: another seed is another fault.
        level: 1 (not finite), 2 (does not learn), 3 (silently wrong).

    Raises:
        UsageError: there is no such level.
    """
    import mindspore as ms

    from mindport.model import NextTokenLoss

    if level not in _PLANT:
        raise UsageError("there is no such level", got=level, expected=", ".join(map(str, _PLANT)))
    generator = np.random.default_rng([seed, level])
    model = _model(int(generator.integers(1000)))
    ids = ms.Tensor(generator.integers(0, model.config.vocab_size, (BATCH, TOKENS)), ms.int32)
    loss: Any = NextTokenLoss(model)
    answer = _PLANT[level](model, loss, generator)
    return Puzzle(level, model, loss, (ids, ids), answer)


def _model(seed: int) -> GPT:
    """Fresh weights in the shape of the bundled LLaMA; plain operators, in which PyNative shows every line."""
    from mindport.config import read_config
    from mindport.model import GPT
    from mindport.model.kernels import override
    from mindport.model.parameters import fresh
    from mindport.sources import resolve

    config = read_config(resolve("tiny-llama")).model
    with override("attention", "reference"):
        return GPT(config, fresh(config, seed))


def _overflow(model: GPT, _: Any, generator: np.random.Generator) -> str:
    name = f"blocks.{generator.integers(len(model.blocks))}.{generator.choice(LINEARS)}"
    cell = dict(model.cells_and_names())[name]
    spoil(cell, HUGE, int(generator.integers(cell.weight.size)))
    return name


def _detach(model: GPT, _: Any, generator: np.random.Generator) -> str:
    from mindspore import ops

    index, part = int(generator.integers(len(model.blocks))), str(generator.choice(PARTS))
    cell = getattr(model.blocks[index], part)
    construct = cell.construct
    cell.construct = lambda *inputs: ops.stop_gradient(construct(*inputs))
    return f"blocks.{index}.{part}"


def _silent(model: GPT, loss: Any, generator: np.random.Generator) -> str:
    kind = str(generator.choice(SILENT))
    {"mask": _without_mask, "positions": _without_positions, "shift": _without_shift}[kind](model, loss)
    return kind


def _without_mask(model: GPT, _: Any) -> None:
    from mindspore import ops

    for block in model.blocks:
        block.attn.attend.mask = lambda copies, t, s, offset: ops.zeros((copies, t, s))


def _without_positions(model: GPT, _: Any) -> None:
    for block in model.blocks:
        block.attn.rotary = False


def _without_shift(_: GPT, loss: Any) -> None:
    loss.construct = lambda ids, labels: loss.loss(loss.model(ids).reshape((-1, loss.rows)), labels.reshape((-1,)))


_PLANT = {1: _overflow, 2: _detach, 3: _silent}
