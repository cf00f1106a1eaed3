"""The lab: plant every fault that a model can have, one by one, and see which module is named."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mindport.config import ModelConfig
from mindport.debug.faults import FAULTS, Fault, applicable, plant
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
    """All trials, and the model without a fault.

    Attributes:
        trials: one a fault.
        false_alarm: what was found in the model without a fault; None is right.
        model: what the faults were planted into.
    """

    trials: tuple[Trial, ...]
    false_alarm: Divergence | None
    model: str

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
        how = f"planted into {self.model} (and one, no_mask, into the code), each module on the reference's own input"
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
    alarm = first_divergence(examine(converted, reference))
    return LabReport(tuple(trials), alarm, f"{converted.name}, a {config.model_type}")


def bundled_lab(name: str = "tiny-gpt2") -> LabReport:
    """The lab on a bundled model, which is converted and traced for it."""
    with _bundled(name) as (converted, trace):
        return replace(fault_lab(converted, trace), model=f"the bundled {name}")


def fingerprints(name: str = "tiny-llama") -> dict[str, Row]:
    """Two faults of attention in a bundled model with rotary positions: the row of the first wrong value of each."""
    with _bundled(name) as (converted, trace):
        reference = read_trace(trace)
        turned = examine(plant(converted, "theta", converted.parent / "theta"), reference)
        with without_mask():
            unmasked = examine(converted, reference)
    return {FAULTS["theta"].what: _first_wrong(turned), "no causal mask": _first_wrong(unmasked)}


def examine(converted: Path | str, reference: Trace) -> tuple[Row, ...]:
    """Every value of the forward pass in PyNative mode, beside the reference's."""
    from mindport.parity.ours import observe

    return compare_forward(reference, observe(Path(converted), reference, forward_only=True))


@contextmanager
def _bundled(name: str) -> Iterator[tuple[Path, Path]]:
    """A bundled model, converted, and its reference's trace, for as long as the block runs."""
    source = resolve(name)
    with tempfile.TemporaryDirectory(prefix="mindport-lab-") as aside:
        converted, trace = Path(aside) / "converted", Path(aside) / "trace"
        convert(source, converted, progress=False)
        run_reference(source, trace, progress=False)
        yield converted, trace


def _first_wrong(rows: tuple[Row, ...]) -> Row:
    return next(row for row in rows if row.state == "failed")


def _trial(fault: Fault, config: ModelConfig, converted: Path, reference: Trace, aside: Path) -> Trial:
    rows = examine(plant(converted, fault.name, aside / fault.name), reference)
    return _judge(fault.name, fault.what, fault.first(config), rows)


def _judge(name: str, what: str, expected: str, rows: tuple[Row, ...]) -> Trial:
    logits = next(row for row in rows if row.path == LOGITS)
    return Trial(name, what, expected, first_divergence(rows), logits.whole_error, logits.whole_cosine)
