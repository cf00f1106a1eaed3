"""How fast a training is: tokens a second, the share of the machine's peak, memory."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mindport.config import ModelConfig
from mindport.measure import memory
from mindport.measure.flops import step_flops
from mindport.training.monitor.evaluate import Total
from mindport.training.monitor.events import Pace
from mindport.training.step_record import StepRecord

Shape = tuple[int, int]  # of a forward pass: (rows, tokens)


class Meter:
    """Adds up steps, and answers for all since the last answer.

    Args:
        config: of the model, for its operations.
        peak: GFLOP/s that MFU is a share of, as `machine_peak()` measures it, of all ranks; None: no MFU.
        total: adds up the memory of all ranks, each of which asks for the pace at the same step.
    """

    def __init__(self, config: ModelConfig, peak: float | None, total: Total = list) -> None:
        self.config, self.peak, self.total = config, peak, total
        self._begin()

    def add(self, record: StepRecord, shapes: Sequence[Shape]) -> None:
        """A step, with the shapes of its forward passes, the rows of all ranks together."""
        self._step = record.step
        if record.compiled:
            self._compiling += record.seconds
            return
        self._steps += 1
        self._seconds += record.seconds
        self._tokens += record.tokens
        self._counted += record.counted
        self._flops += sum(step_flops(self.config, rows, tokens) for rows, tokens in shapes)

    def pace(self) -> Pace:
        """The mean since the last call; then it begins anew."""
        resident, most, swapped = self.total((memory.resident(), memory.peak(), memory.swapped()))
        pace = Pace(
            step=self._step, steps=self._steps, seconds=self._seconds / self._steps if self._steps else None,
            tokens_per_second=self._rate(self._tokens), counted_per_second=self._rate(self._counted),
            mfu=self._mfu(), compiling=self._compiling, memory=resident, peak=most, swapped=swapped,
            load=os.getloadavg()[0],
        )  # fmt: skip
        self._begin()
        return pace

    def _begin(self) -> None:
        self._step = self._steps = self._tokens = self._counted = 0
        self._seconds = self._compiling = self._flops = 0.0

    def _rate(self, count: float) -> float | None:
        return count / self._seconds if self._seconds > 0 else None

    def _mfu(self) -> float | None:
        rate = self._rate(self._flops)
        return rate / 1e9 / self.peak if rate is not None and self.peak else None


def machine_peak() -> float | None:
    """GFLOP/s of this machine's matrix product, in half a second; None where it cannot be measured.

    On a device other than a CPU it is not measured either: what its maker publishes, the user may give.
    """
    import mindspore as ms

    from mindport.measure.peak import glance

    return glance() if ms.get_context("device_target") == "CPU" else None
