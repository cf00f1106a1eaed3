"""The lines of a comparison: one value, one gradient, the logits, and the first value that is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["pass", "failed", "inherited"]


@dataclass(frozen=True)
class Row:
    """One value of the forward pass.

    Attributes:
        path, foreign: its names.
        shape: of the reference's value.
        scale: its largest value.
        error: alone, largest absolute difference from torch.
        relative, limit: alone, relative difference from torch, and what is allowed.
        own: torch's own relative error, float32 from float64 on the same input.
        ratio: our error from float64 over torch's; None where torch has none.
        cosine: alone; an alarm only.
        whole_error, whole_cosine: in the whole model, largest absolute difference from torch, and cosine.
        whole, whole_limit: relative difference in the whole model; limited on the residual stream.
        positions: `whole` at each position (residual stream and faulty cells).
        state: pass, failed (this cell), or inherited (from an earlier one).
    """

    path: str
    foreign: str
    shape: tuple[int, ...]
    scale: float
    error: float
    relative: float
    limit: float
    own: float
    ratio: float | None
    cosine: float
    whole_error: float
    whole_cosine: float
    whole: float
    whole_limit: float | None
    positions: tuple[float, ...]
    state: State


@dataclass(frozen=True)
class GradientRow:
    """One gradient of a layer: errors over its scale, in both modes."""

    parameter: str
    shape: tuple[int, ...]
    scale: float
    pynative: float
    graph: float
    own: float
    limit: float

    @property
    def ok(self) -> bool:
        return max(self.pynative, self.graph) <= self.limit


@dataclass(frozen=True)
class Divergence:
    """The first value that is wrong.

    Attributes:
        path, foreign: both names.
        local: the cell itself is wrong; false: only what it was given.
        relative, limit: the error that gave it away.
        sign: what the error's course over the positions says, if it says something.
    """

    path: str
    foreign: str
    local: bool
    relative: float
    limit: float
    sign: str = ""

    def __str__(self) -> str:
        kind = (
            "local: the cell itself"
            if self.local
            else "inherited: every cell alone is right, what they are given is not"
        )
        sign = f"; {self.sign}" if self.sign else ""
        return f"{self.path} ↔ {self.foreign} ({kind}; {self.relative:.1e}, limit {self.limit:.0e}{sign})"


@dataclass(frozen=True)
class Logits:
    """The end of the model: absolute errors.

    Attributes:
        scale: the largest logit.
        pynative, graph: from the exact value, the whole model in float64.
        from_torch: from torch's float32, the larger of both modes.
        own: torch's own error from the exact value.
        limit: for `pynative` and `graph`.
    """

    scale: float
    pynative: float
    graph: float
    from_torch: float
    own: float
    limit: float

    @property
    def ok(self) -> bool:
        return max(self.pynative, self.graph) <= self.limit
