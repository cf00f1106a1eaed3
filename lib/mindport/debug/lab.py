"""The lab: plant every fault that a model can have, one by one, and see which module is named."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from mindport.config import ModelConfig
from mindport.debug.faults import Fault, applicable, plant
from mindport.debug.mask import without_mask
from mindport.parity.compare import compare_forward, first_divergence
from mindport.parity.launch import run_reference
from mindport.parity.rows import Divergence, Row
from mindport.parity.taps import LOGITS
from mindport.parity.trace import Trace, read_trace
from mindport.results import Property, Result, verdict
from mindport.sources import resolve
from mindport.tables import Table
from mindport.weights import convert
from mindport.weights.manifest import read_manifest

ALIKE = 0.999  # a cosine that is often taken for agreement


@dataclass(frozen=True)
class Trial:
    """One fault: what should be named, what was, and what coarser checks would have said.

    Attributes:
        fault, what: the fault and what the converter did.
        expected: the first wrong value.
        named: the first divergence that was found; None: nothing was.
        logits: largest absolute error of the logits, from torch.
        cosine: of the logits.
    """

    fault: str
    what: str
    expected: str
    named: Divergence | None
    logits: float
    cosine: float

    @property
    def ok(self) -> bool:
        return self.named is not None and self.named.path == self.expected


@dataclass(frozen=True)
class LabReport(Result):
    """All trials, and the model without a fault."""

    trials: tuple[Trial, ...]
    false_alarm: Divergence | None

    @property
    def ok(self) -> bool:
        return self.false_alarm is None and all(trial.ok for trial in self.trials)

    def headline(self) -> str:
        named = sum(trial.ok for trial in self.trials)
        alarm = "no false alarm" if self.false_alarm is None else f"a false alarm at {self.false_alarm}"
        passed = sum(trial.cosine > ALIKE for trial in self.trials)
        coarse = f"{passed} leave the cosine of the logits above {ALIKE:g}"
        return f"{named} of {len(self.trials)} planted faults named; {alarm}; {coarse}"

    def tables(self) -> tuple[Table, ...]:
        rows = [
            (t.fault, t.what, t.named.path if t.named else "nothing", t.expected, t.logits, f"{t.cosine:.9f}",
             "pass" if t.ok else "failed")
            for t in self.trials
        ]  # fmt: skip
        columns = (
            "fault",
            "what the converter did",
            "named",
            "planted at",
            "logits off by",
            "cosine of logits",
            "state",
        )
        return (Table("planted faults", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        how = "faults planted in the converted weights, module by module against the reference's trace"
        return (verdict("a converter's fault is named by its first wrong module", self.ok, how, self.headline()),)


def fault_lab(converted: Path | str, trace: Path | str) -> LabReport:
    """Plant each fault in copies of `converted` and compare them with the reference's trace.

    Args:
        converted: a MindPort directory; it stays as it is.
        trace: the reference's trace of its source.
    """
    converted, reference = Path(converted), read_trace(Path(trace))
    config = read_manifest(converted).model
    with tempfile.TemporaryDirectory(prefix="mindport-faults-") as aside:
        trials = [_trial(fault, config, converted, reference, Path(aside)) for fault in applicable(config)]
    with without_mask():
        rows = examine(converted, reference)
    trials.append(_judge("no_mask", "(the code, not the converter) no causal mask", "blocks.0.attn.context", rows))
    return LabReport(tuple(trials), first_divergence(examine(converted, reference)))


def bundled_lab(name: str = "tiny-gpt2") -> LabReport:
    """The lab on a bundled model, which is converted and traced for it."""
    source = resolve(name)
    with tempfile.TemporaryDirectory(prefix="mindport-lab-") as aside:
        converted, trace = Path(aside) / "converted", Path(aside) / "trace"
        convert(source, converted, progress=False)
        run_reference(source, trace, progress=False)
        return fault_lab(converted, trace)


def examine(converted: Path | str, reference: Trace) -> tuple[Row, ...]:
    """Every value of the forward pass in PyNative mode, beside the reference's."""
    from mindport.parity.ours import observe

    return compare_forward(reference, observe(Path(converted), reference, forward_only=True))


def _trial(fault: Fault, config: ModelConfig, converted: Path, reference: Trace, aside: Path) -> Trial:
    rows = examine(plant(converted, fault.name, aside / fault.name), reference)
    return _judge(fault.name, fault.what, fault.first(config), rows)


def _judge(name: str, what: str, expected: str, rows: tuple[Row, ...]) -> Trial:
    logits = next(row for row in rows if row.path == LOGITS)
    return Trial(name, what, expected, first_divergence(rows), logits.whole_error, logits.whole_cosine)
