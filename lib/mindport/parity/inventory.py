"""What a few tokens cannot show: every field of the configuration, every number of the weights, far positions.

A wrong epsilon hides behind large activations, a wrong embedding row behind a prompt that does not use it, a wrong
rotary factor behind a short text. So these are held against the source one by one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config import from_dict
from mindport.config.locate import is_reachable
from mindport.config.model_config import ModelConfig
from mindport.errors import some
from mindport.parity import metrics, rotation
from mindport.parity.trace import Trace
from mindport.results import Property, verdict
from mindport.tables import Table
from mindport.weights.digests import expected_digests, found_digests
from mindport.weights.manifest import Manifest, read_manifest


@dataclass(frozen=True)
class Inventory:
    """The converted directory beside its source.

    Attributes:
        fields: (field, the source's value, the converted one) where they differ.
        tensors: parameters whose bytes are not what the source makes of them.
        compared: how many parameters were compared.
        untried: why they were not, "" when they were.
        rotations: (sequence length, error of cos and sin of one step).
    """

    fields: tuple[tuple[str, str, str], ...]
    tensors: tuple[str, ...]
    compared: int
    untried: str
    rotations: tuple[tuple[int, float], ...]

    @property
    def rotations_ok(self) -> bool:
        return all(error <= rotation.LIMIT for _, error in self.rotations)

    @property
    def ok(self) -> bool:
        return not self.fields and not self.tensors and self.rotations_ok

    def faults(self) -> list[str]:
        """What is wrong, one phrase each."""
        fields = [f"{name} is {ours}, the source says {theirs}" for name, theirs, ours in self.fields]
        tensors = [f"{len(self.tensors)} parameters are not the source's: {some(self.tensors)}"] * bool(self.tensors)
        wrong = [length for length, error in self.rotations if error > rotation.LIMIT]
        return fields + tensors + [f"rotary positions are wrong in sequences of {some(wrong)} tokens"] * bool(wrong)

    def table(self) -> Table:
        """One line for each promise."""
        rows = [("pass" if p.state == "verified" else p.state, p.name, p.figure or p.how) for p in self.properties()]
        return Table("beyond the tokens that were fed", ("state", "what", "figure"), rows)

    def properties(self) -> tuple[Property, ...]:
        fields = "; ".join(f"{name}: {ours} instead of {theirs}" for name, theirs, ours in self.fields)
        lines = [verdict("the configuration is the source's", not self.fields, "field by field", fields or "all equal")]
        if self.untried:
            lines.append(Property("every parameter is the source's", "skipped", self.untried))
        else:
            figure = f"{self.compared - len(self.tensors)} of {self.compared} parameters"
            lines.append(verdict("every parameter is the source's", not self.tensors, "digests by the table", figure))
        if self.rotations:
            worst = max(error for _, error in self.rotations)
            reach = f"sequences of {self.rotations[0][0]:,} to {self.rotations[-1][0]:,} tokens"
            figure = f"{worst:.1e} (limit {rotation.LIMIT:.0e}); {reach}"
            lines.append(verdict("rotary angles agree beyond the context", self.rotations_ok, "one step", figure))
        return tuple(lines)


def take(tried: Path, reference: Trace, ours: Trace) -> Inventory:
    """Hold a MindPort directory against the reference's trace, and against the source where it is at hand."""
    manifest, about = read_manifest(tried), reference.about
    expected, untried = _expected(Path(about["source"]["path"]), manifest, about["tensors"])
    found = found_digests(tried) if expected else {}
    return Inventory(
        fields=_fields(from_dict(about["whole"]), manifest.model),
        tensors=tuple(name for name in expected if found.get(name) != expected[name]),
        compared=len(expected),
        untried=untried,
        rotations=_rotations(reference, ours),
    )


def _expected(source: Path, manifest: Manifest, traced: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """What each parameter's digest should be, or why that is not known."""
    if manifest.dtype == "keep":
        return traced, ""
    if is_reachable(source):
        return expected_digests(source, manifest.dtype, manifest.allowed, manifest.model.padded_vocab), ""
    return {}, f"converted to {manifest.dtype}, and the source is not here to do the same"


def _fields(source: ModelConfig, converted: ModelConfig) -> tuple[tuple[str, str, str], ...]:
    names = [field.name for field in dataclasses.fields(ModelConfig)]
    values: list[tuple[str, Any, Any]] = [(name, getattr(source, name), getattr(converted, name)) for name in names]
    return tuple((name, *_told(theirs, ours)) for name, theirs, ours in values if theirs != ours)


def _told(theirs: Any, ours: Any) -> tuple[str, str]:
    """Both in short, or in full where the short forms are alike: a rope's lists of divisors."""
    return (str(theirs), str(ours)) if str(theirs) != str(ours) else (repr(theirs), repr(ours))


def _rotations(reference: Trace, ours: Trace) -> tuple[tuple[int, float], ...]:
    names = [name for name in reference.arrays if name.startswith(rotation.PREFIX)]
    found = [(int(name.removeprefix(rotation.PREFIX)), _apart(ours[name], reference[name])) for name in names]
    return tuple(sorted(found))


def _apart(ours: np.ndarray, reference: np.ndarray) -> float:
    """Infinity when another number of pairs is rotated."""
    return metrics.error(ours, reference) if ours.shape == reference.shape else math.inf
