"""How many devices share the work, and in which way: `dp2,tp4,pp1`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mindport.config import ModelConfig
from mindport.config.constraints import Constraint, pipeline, tensor_parallel
from mindport.errors import ConfigError, UsageError


@dataclass(frozen=True)
class Layout:
    """Degrees of data, tensor and pipeline parallelism; their product is the number of devices."""

    dp: int = 1
    tp: int = 1
    pp: int = 1

    @property
    def devices(self) -> int:
        return self.dp * self.tp * self.pp

    def __str__(self) -> str:
        return f"dp{self.dp},tp{self.tp},pp{self.pp}"

    def check(self, config: ModelConfig) -> tuple[Constraint, ...]:
        """The rules that this layout puts on a model.

        Raises:
            ConfigError: the model cannot be split like that.
        """
        rules = (tensor_parallel(config, self.tp), pipeline(config, self.pp))
        if broken := [rule for rule in rules if not rule.ok]:
            raise ConfigError("the model cannot be split by this layout", where=self,
                              got="; ".join(f"{rule.name}: {rule.got}" for rule in broken),
                              expected="; ".join(rule.expected for rule in broken),
                              do="; ".join(rule.do for rule in broken))  # fmt: skip
        return rules


def parse_layout(text: str) -> Layout:
    """`dp1,tp2,pp1` → `Layout`; a degree that is left out is one.

    Raises:
        UsageError: not such a text.
    """
    parts = [re.fullmatch(r"(dp|tp|pp)([1-9][0-9]{0,5})", part) for part in text.split(",")]
    names = [part[1] for part in parts if part]
    if len(names) < len(parts) or len(set(names)) < len(names):
        raise UsageError("not a layout", got=repr(text), expected="such as dp1,tp2,pp1: each degree once, from 1 on")
    return Layout(**{part[1]: int(part[2]) for part in parts if part})
