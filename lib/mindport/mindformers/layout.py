"""How many devices share the work, and in which way: `dp2,tp4,pp1,zero1,sp,recompute-full,mb8`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mindport.config import ModelConfig
from mindport.config.constraints import Constraint
from mindport.errors import ConfigError, UsageError
from mindport.mindformers.rules import RULES, Asked

Recompute = Literal["none", "selective", "full"]
_DEGREES = {"dp": "dp", "tp": "tp", "pp": "pp", "v": "interleave", "cp": "cp", "mb": "micro_batches"}
_WORD = re.compile(
    r"(dp|tp|pp|cp|mb|v)([1-9][0-9]{0,5})|(zero)([0-3])|(sp)|(recompute)-(none|selective|full)", re.ASCII
)
EXPECTED = "such as dp1,tp2,pp2,v2,zero1,sp,recompute-full,mb8: each part once, degrees from 1 on, zero0 to zero3"


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism, and what is kept where.

    Attributes:
        dp, tp, pp, cp: data, tensor, pipeline and context parallelism; their product is the number of devices.
        zero: what the replicas of a weight share out: 1 optimizer state, 2 gradients too, 3 weights too.
        sequence_parallel: what tensor parallelism leaves whole (norms, residuals) is split along the sequence.
        recompute: activations that are computed again in the backward pass instead of kept.
        micro_batches: parts of a replica's batch that follow each other: of the pipeline, or accumulated.
        interleave: chunks of layers that take turns on each pipeline stage; 1 is a plain pipeline.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    zero: int = 0
    sequence_parallel: bool = False
    recompute: Recompute = "none"
    micro_batches: int = 1
    interleave: int = 1

    @property
    def devices(self) -> int:
        return self.dp * self.tp * self.pp * self.cp

    @property
    def replicas(self) -> int:
        """Devices that hold the same weights: what ZeRO shares out."""
        return self.dp * self.cp

    @property
    def sp(self) -> int:
        """Sequence parallelism as a number, as the rules count it."""
        return int(self.sequence_parallel)

    @property
    def degrees(self) -> str:
        """The degrees above 1, `dp2,tp2`; `dp1` for one device."""
        all_four = {"dp": self.dp, "tp": self.tp, "pp": self.pp, "cp": self.cp}
        return ",".join(f"{name}{degree}" for name, degree in all_four.items() if degree > 1) or "dp1"

    def __str__(self) -> str:
        """The three degrees, and of the rest what is not the default."""
        rest = {f"v{self.interleave}": self.interleave > 1, f"cp{self.cp}": self.cp > 1,
                f"zero{self.zero}": self.zero > 0, "sp": self.sequence_parallel,
                f"recompute-{self.recompute}": self.recompute != "none",
                f"mb{self.micro_batches}": self.micro_batches > 1}  # fmt: skip
        said = [text for text, is_set in rest.items() if is_set]
        return ",".join([f"dp{self.dp}", f"tp{self.tp}", f"pp{self.pp}", *said])

    def check(self, config: ModelConfig, seq: int | None = None) -> tuple[Constraint, ...]:
        """The rules that this layout puts on a model, and on samples of `seq` tokens (None: the model's context).

        Raises:
            ConfigError: one of them does not hold.
        """
        asked = Asked(config, seq or config.max_position_embeddings)
        held = tuple(rule.hold(asked, self) for rule in RULES)
        if broken := [rule for rule in held if not rule.ok]:
            raise ConfigError("the model cannot be split by this layout", where=self,
                              got="; ".join(rule.got for rule in broken),
                              expected="; ".join(rule.name for rule in broken), do=broken[0].do)  # fmt: skip
        return held


def parse_layout(text: str) -> Layout:
    """`dp1,tp2,pp1` → `Layout`; a part that is left out has its default.

    Raises:
        UsageError: not such a text.
    """
    words = [_WORD.fullmatch(part) for part in text.split(",")]
    values = dict(_value(word) for word in words if word)
    if len(values) < len(words):
        raise UsageError("not a layout", got=repr(text), expected=EXPECTED)
    return Layout(**values)  # type: ignore[arg-type]


def _value(word: re.Match[str]) -> tuple[str, object]:
    """The field that a word sets, and to what."""
    degree, count, zero, stage, sequence, _, recompute = word.groups()
    if degree:
        return _DEGREES[degree], int(count)
    if zero:
        return "zero", int(stage)
    return ("sequence_parallel", True) if sequence else ("recompute", recompute)
