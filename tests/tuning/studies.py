"""Made-up figures for the tests of the studies."""

from __future__ import annotations

from typing import Any

from mindport.tuning.study import Figures


def figure(name: str, milliseconds: float = 10.0, **changes: Any) -> Figures:
    """A contestant that computes the same as the first one."""
    seconds = milliseconds / 1e3
    fields = {"seconds": seconds, "fastest": 0.9 * seconds, "slowest": 1.2 * seconds, "memory": 100.0,
              "loss_error": 1e-7, "gradient_error": 1e-6, "first_seconds": 1.0, "kernels": {}}  # fmt: skip
    return Figures(name, **{**fields, **changes})


def states(result: Any) -> list[str]:
    """The states of a result's properties."""
    return [line.state for line in result.properties()]
