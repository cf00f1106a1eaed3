"""The planner against published rows: one constant fitted on half of them, the rest predicted.

The fit makes the mean of ln(predicted / published) zero. Which half is fitted is a rule fixed beforehand: every other
row of the file. Because that is one choice of many, every split into halves is tried as well. Nothing is set per row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from mindport.parallel.plan.constants import hardware, read
from mindport.parallel.plan.grid import simplified
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.planner import plan
from mindport.parallel.plan.published import FILE, Row, log_error, published_model, rows
from mindport.parallel.plan.validation_result import CLOSE, Held, Other, Sensitivity, Validation

TOLERANCE = 1e-6
VARIED = ("link", "network", "hbm", "tp_overlap", "dp_overlap", "latency", "half_width")


def validate() -> Validation:
    """Fit, predict, and hold to what was published."""
    known, further = rows("rows"), rows("further")
    fitted, held_out = known[::2], known[1::2]
    efficiency = fit(fitted)
    whole = fit(known)
    return Validation(
        efficiency=efficiency, whole=whole,
        fitted=tuple(held(row, efficiency) for row in fitted),
        held_out=tuple(held(row, efficiency) for row in held_out),
        unlaid=tuple(held(row, efficiency) for row in rows("unlaid")),
        further=tuple(held(row, efficiency) for row in further),
        splits=splits(known), sensitivity=sensitivity(known), others=others(whole),
    )  # fmt: skip


def fit(known: Sequence[Row], **settings: float) -> float:
    """The efficiency at which the mean of ln(predicted / published) is zero; it grows with the efficiency."""
    efficiency = 0.5
    for _ in range(30):
        mean = np.mean([log_error(row, efficiency=efficiency, **settings) for row in known])
        if abs(mean) < TOLERANCE:
            break
        efficiency = float(np.clip(efficiency * math.exp(-mean), 0.01, 1.0))
    return efficiency


def held(row: Row, efficiency: float) -> Held:
    """One row beside its prediction, and its memory with and without the recomputation that it used."""
    said = row.predict(efficiency=efficiency)
    without = None
    if row.layout.recompute != "none":
        without = row.predict(replace(simplified(row.layout), recompute="none"), efficiency=efficiency).needed
    return Held(row.name, str(row.layout), row.source, row.tokens, said.tokens_per_second,
                said.tokens_per_second / row.tokens - 1, said.needed, row.memory * 2**30, without,
                said.needed / (1 + row.job({}).hardware["margin"]))  # fmt: skip


def splits(known: Sequence[Row]) -> tuple[float, ...]:
    """Share of the held-out rows that are close, for every choice of half of the rows to fit on."""
    found, grid = [], _predictions(known)
    for half in combinations(range(len(known)), len(known) // 2):
        rest = [i for i in range(len(known)) if i not in half]
        errors = grid.errors(list(half), rest)
        found.append(float(np.mean(np.abs(errors) <= CLOSE)))
    return tuple(found)


def sensitivity(known: Sequence[Row]) -> tuple[Sensitivity, ...]:
    """The same with each assumed constant at an end of its range, and with other chips in the servers, fitted anew."""
    constants = hardware("910B").constants
    ends = [(name, value) for name in VARIED for value in (constants[name].low, constants[name].high)]
    chips = [{**read()["servers"], "Atlas 900 A2 PoDc": chip} for chip in ("910B1", "910B3")]
    return (
        *(_varied(f"{name} {value:.3g}", known, **{name: value}) for name, value in ends),
        *(_varied(", ".join(f"{server}: {chip}" for server, chip in change.items()),
                  [replace(row, device=change[row.server]) for row in known]) for change in chips),
    )  # fmt: skip


def _varied(name: str, known: Sequence[Row], **settings: float) -> Sensitivity:
    efficiency = fit(known, **settings)
    errors = [math.expm1(log_error(row, efficiency=efficiency, **settings)) for row in known]
    return Sensitivity(name, efficiency, sum(abs(error) <= CLOSE for error in errors), len(errors))


def others(efficiency: float) -> tuple[Other, ...]:
    """Published utilisations beside that of the planner's fastest layout for the model, where it has one."""
    found = []
    for line in read(FILE)["others"]:
        best = None
        if "model" in line:
            device = hardware("910B").with_values({"efficiency": efficiency})
            best = plan(Job(published_model(line["model"]), device, line["devices"])).best
        found.append(Other(line["system"], line.get("model", "not a dense model"), line["devices"], line["mfu"],
                           best and best.mfu, best and str(best.layout)))  # fmt: skip
    return tuple(found)


@dataclass(frozen=True)
class _Predictions:
    """ln(predicted / published) of each row at many efficiencies, so that each split is a look-up."""

    efficiencies: np.ndarray
    logs: np.ndarray  # (efficiencies, rows)

    def errors(self, half: list[int], rest: list[int]) -> np.ndarray:
        """Relative errors of `rest` at the efficiency that suits `half`."""
        at = np.interp(0.0, self.logs[:, half].mean(axis=1), self.efficiencies)
        return np.expm1([np.interp(at, self.efficiencies, self.logs[:, i]) for i in rest])


def _predictions(known: Sequence[Row]) -> _Predictions:
    efficiencies = np.linspace(0.4, 0.9, 21)
    return _Predictions(efficiencies, np.array([[log_error(row, efficiency=e) for row in known] for e in efficiencies]))
