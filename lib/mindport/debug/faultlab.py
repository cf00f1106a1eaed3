"""The fault lab: plant every fault, one by one, and see whether the diagnosis names it.

Faults go into the two bundled models; one that neither can have, into a tiny random model of a family that can. And
each model is diagnosed as it is, without a fault: there must be nothing to find.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.debug.diagnosis import Evidence, diagnose
from mindport.debug.faults import FAULTS, Fault, Ground
from mindport.errors import UsageError, some
from mindport.parity.launch import make_tiny, run_reference
from mindport.parity.taps import LOGITS
from mindport.parity.tiny import MODELS
from mindport.results import Property, Result, verdict
from mindport.sources import resolve
from mindport.tables import Table
from mindport.weights import convert

BUNDLED = ("tiny-gpt2", "tiny-llama")
FIRST, TOP = 0.9, 3  # the share that must be named first; all must be named among so many
COARSE = ("cosine of logits", "same tokens")


@dataclass(frozen=True)
class Trial:
    """One fault in one model.

    Attributes:
        planted, what, kind: the fault, what was done wrong, its part of the lab.
        model: where.
        expected, found: the first wrong value as it should be, and as it was seen; None: nothing was.
        named: the first causes, best first.
        rank: at which place the right one stands, from 1; None: nowhere.
        evidence: what speaks for the first cause.
        cosine, tokens: what coarser checks say of the whole model, None where it was not run forward: the cosine of the
            logits, and the share of positions at which the most likely token is the right one.
        seconds: of planting, running and diagnosing.
    """

    planted: str
    what: str
    kind: str
    model: str
    expected: str
    found: str | None
    named: tuple[str, ...]
    rank: int | None
    evidence: str
    cosine: float | None
    tokens: float | None
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it was seen where it is, and named among the first causes."""
        return self.found == self.expected and self.rank is not None and self.rank <= TOP

    @property
    def coarse(self) -> tuple[str, str]:
        """The coarser checks as text."""
        cosine = "–" if self.cosine is None else f"{self.cosine:.9f}"
        return cosine, "–" if self.tokens is None else f"{self.tokens:.0%}"


@dataclass(frozen=True)
class Clean:
    """A model without a fault, and the causes that were found for nothing."""

    model: str
    alarms: tuple[str, ...]


@dataclass(frozen=True)
class LabReport(Result):
    """All trials.

    Attributes:
        trials: one a fault and model.
        clean: one a model.
    """

    trials: tuple[Trial, ...]
    clean: tuple[Clean, ...]

    @property
    def first(self) -> int:
        """How many faults are named first."""
        return sum(trial.rank == 1 for trial in self.trials)

    @property
    def top(self) -> int:
        """How many are named among the first three."""
        return sum(trial.ok for trial in self.trials)

    @property
    def ok(self) -> bool:
        count = len(self.trials)
        return self.top == count and self.first >= FIRST * count and not any(clean.alarms for clean in self.clean)

    def headline(self) -> str:
        count, alarms = len(self.trials), [clean.model for clean in self.clean if clean.alarms]
        return (
            f"{count} planted faults: {self.first} named first, {self.top} within the first {TOP}; "
            f"{len(self.clean)} models without a fault: "
            + (f"false alarms in {some(alarms)}" if alarms else "no alarm")
        )

    def tables(self) -> tuple[Table, ...]:
        rows = [
            (t.planted, t.what, t.model, t.found or "nothing", t.named[0] if t.named else "nothing", t.rank, t.evidence,
             *t.coarse, "pass" if t.ok else "failed")
            for t in self.trials
        ]  # fmt: skip
        columns = ("planted", "what was done wrong", "model", "first wrong value", "named", "rank",
                   "how that is known", *COARSE, "state")  # fmt: skip
        clean = [(c.model, ", ".join(c.alarms) or "nothing", "failed" if c.alarms else "pass") for c in self.clean]
        return Table("planted faults", columns, rows), Table("without a fault", ("model", "found", "state"), clean)

    def properties(self) -> tuple[Property, ...]:
        models = some(dict.fromkeys(trial.model for trial in self.trials))
        how = f"planted into {models}, compared with transformers module by module or step by step, and diagnosed"
        return (verdict("a planted fault is found, and its cause is named", self.ok, how, self.headline()),)

    def as_dict(self) -> dict[str, Any]:
        count = len(self.trials) or 1
        rates = {"first": self.first / count, f"first_{TOP}": self.top / count,
                 "false_alarms": sum(bool(clean.alarms) for clean in self.clean)}  # fmt: skip
        return {**super().as_dict(), "rates": rates}


def fault_lab(only: Sequence[str] = (), models: Sequence[str] = (), progress: bool = False) -> LabReport:
    """Plant faults and diagnose them.

    Args:
        only: names of faults, and then only the models that they go into; all when there are none.
        models: names of models; all when there are none.
        progress: say each trial on stderr.

    Raises:
        UsageError: a fault or a model does not exist, or none of the models can have the fault.
    """
    _known("fault", only, FAULTS)
    _known("model", models, (*BUNDLED, *MODELS))
    with grounds(models or (*BUNDLED, *MODELS), progress) as found:
        planted = [(FAULTS[name], ground) for name in only or FAULTS for ground in homes(FAULTS[name], found)]
        kinds, used = {fault.kind for fault, _ in planted}, {ground.name for _, ground in planted}
        clean = tuple(_clean(ground, kinds) for ground in found if not only or ground.name in used)
        trials = []
        for fault, ground in planted:
            trials.append(trial(fault, ground))
            if progress:
                print(f"fault lab: {fault.name} in {ground.name}: {trials[-1].named[:1]}", file=sys.stderr)
    if missed := set(only) - {one.planted for one in trials}:
        raise UsageError("no model of these can have the fault", got=some(sorted(missed)), expected=some(models))
    return LabReport(tuple(trials), clean)


def _clean(ground: Ground, kinds: Collection[str]) -> Clean:
    """What is found in a model without a fault, in the kinds of comparison that see these kinds of faults."""
    looked = [ground.compare(ground.converted)] + [ground.trained()] * ("training" in kinds)
    return Clean(ground.name, tuple(cause.name for evidence in looked for cause in diagnose(evidence).causes))


def homes(fault: Fault, found: Sequence[Ground]) -> list[Ground]:
    """The bundled models that can have the fault; failing that, the first other one that can."""
    able = [ground for ground in found if fault.applies(ground.config)]
    return [ground for ground in able if ground.name in BUNDLED] or able[:1]


def trial(fault: Fault, ground: Ground) -> Trial:
    """Plant one fault in one model, compare, and diagnose."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mindport-fault-") as aside:
        evidence = fault.evidence(ground, Path(aside))
        causes = diagnose(evidence).causes
    named = [cause.name for cause in causes]
    ranks = [rank for rank, name in enumerate(named, 1) if name in fault.causes]
    return Trial(
        planted=fault.name,
        what=fault.what,
        kind=fault.kind,
        model=ground.name,
        expected=fault.at(ground.config),
        found=causes[0].where if causes else None,
        named=tuple(named[:TOP]),
        rank=ranks[0] if ranks else None,
        evidence=causes[0].evidence if causes else "",
        cosine=next((row.whole_cosine for row in evidence.rows if row.path == LOGITS), None),
        tokens=_same_tokens(evidence),
        seconds=round(time.perf_counter() - began, 2),
    )


@contextmanager
def grounds(names: Sequence[str], progress: bool = False) -> Iterator[list[Ground]]:
    """Models, converted, and their references' traces, for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="mindport-lab-") as place:
        out = Path(place)
        if tiny := [name for name in names if name in MODELS]:
            make_tiny(tiny, out, progress=progress)
        for name in names:
            if name not in MODELS:
                run_reference(resolve(name), out / name / "trace", progress=progress)
        yield [ground_at(name, out / name) for name in names]


def ground_at(name: str, place: Path) -> Ground:
    """The model whose trace (and, of a tiny one, source) is in `place`, converted there."""
    source = place / "source" if name in MODELS else resolve(name)
    padded = MODELS[name].padded_vocab if name in MODELS else None
    convert(source, place / "converted", padded_vocab=padded, progress=False)
    return Ground(name, source, place / "converted", place / "trace")


def _same_tokens(evidence: Evidence) -> float | None:
    if evidence.reference is None or evidence.ours is None:
        return None
    ours, right = (trace[f"out/{LOGITS}"].argmax(-1) for trace in (evidence.ours, evidence.reference))
    return float((ours == right).mean())


def _known(what: str, names: Sequence[str], known: Sequence[str] | dict[str, Fault]) -> None:
    if strangers := [name for name in names if name not in known]:
        raise UsageError(f"there is no such {what}", got=some(strangers), expected=", ".join(known))
