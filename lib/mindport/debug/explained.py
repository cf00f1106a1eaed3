"""`mindport verify`, and where it is red, why: the most likely causes with the report."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport import parity
from mindport.debug.diagnosis import Cause, Evidence, diagnose
from mindport.debug.diagnosis.engine import cause_table, ranked
from mindport.parity import Comparison, StepsReport, Trace, VerifyReport
from mindport.tables import Table


@dataclass(frozen=True, kw_only=True)
class Explained(VerifyReport):
    """What `parity.verify` says, and the causes.

    Attributes:
        causes: the most likely first; none where everything is right.
    """

    causes: tuple[Cause, ...]

    def headline(self) -> str:
        said = super().headline()
        return f"{said}; most likely: {self.causes[0].says}" if self.causes else said

    def tables(self) -> tuple[Table, ...]:
        return (*((cause_table(self.causes),) if self.causes else ()), *super().tables())


def verify(directory: Path | str, **options: Any) -> Explained:
    """`parity.verify` with its arguments, and a diagnosis of what is wrong, in the forward pass or in the training."""
    causes: list[Cause] = []

    def look(tried: Path, reference: Trace, ours: Trace, compared: Comparison) -> None:
        evidence = Evidence(reference=reference, ours=ours, rows=compared.rows, directory=tried)
        causes.extend(diagnose(evidence).causes)

    def look_at_training(reference: Trace, ours: Trace, compared: StepsReport) -> None:
        if not compared.ok:
            causes.extend(diagnose(Evidence(training_reference=reference, training_ours=ours)).causes)

    found = parity.verify(directory, **options, look=look, look_at_training=look_at_training)
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    return Explained(**fields, causes=ranked(causes))
