"""What a conversion answers: the fate of every tensor, figures that close, and what was read back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.config.schema import LAYER
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.weights.census import NotFinite
from mindport.weights.names import pattern


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one source tensor."""

    tensor: str
    fate: str
    targets: tuple[str, ...]
    layout: str
    dtype: str
    shape: tuple[int, ...]
    file: str


@dataclass(frozen=True, slots=True)
class Loss:
    """What another precision did to one tensor: its largest absolute change."""

    tensor: str
    max_abs_error: float


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A weight file; `identical` says whether its bytes are the original's, None where there is none to compare."""

    name: str
    sha256: str
    bytes: int
    identical: bool | None = None


@dataclass(frozen=True)
class Accounting:
    """Counted while converting and while reading back; both equations must hold.

    source_tensors = converted + dropped + tied        written = expected, parameters = schema_parameters
    """

    source_tensors: int
    converted: int
    dropped: int
    tied: int
    written: int
    expected: int
    parameters: int
    schema_parameters: int
    bytes_read: int
    bytes_written: int

    @property
    def closes(self) -> bool:
        """Whether nothing was lost and nothing invented."""
        return (
            self.source_tensors == self.converted + self.dropped + self.tied
            and self.written == self.expected
            and self.parameters == self.schema_parameters
        )


@dataclass(frozen=True)
class ConversionReport(Result):
    """The outcome of `convert`.

    Attributes:
        source, target: directories.
        to: "huggingface", or a target's name.
        dtype: "keep", or the precision asked for.
        file_format: "safetensors" or "ckpt".
        model_type: the family.
        prefix: what the foreign names begin with.
        accounting: the figures.
        read_back: tensors of the written files that are bit for bit what was meant.
        fates: a row for every source tensor.
        losses: tensors that another precision changed.
        files: what was written.
        notes: what the user should know.
        not_finite: tensors written with NaN or infinities in them, exactly as the source has them.
    """

    source: Path
    target: Path
    to: str
    dtype: str
    file_format: str
    model_type: str
    prefix: str
    accounting: Accounting
    read_back: int
    fates: tuple[Fate, ...]
    losses: tuple[Loss, ...]
    files: tuple[WrittenFile, ...]
    notes: tuple[str, ...]
    not_finite: tuple[NotFinite, ...] = ()

    @property
    def ok(self) -> bool:
        return self.accounting.closes and self.read_back == self.accounting.written

    def headline(self) -> str:
        a = self.accounting
        return (
            f"{a.source_tensors} tensors read, {a.written} written to {self.target.name} "
            f"({a.bytes_written / 1e6:,.1f} MB): the accounting {'closes' if a.closes else 'DOES NOT CLOSE'}, "
            f"{self.read_back} read back bit for bit"
        )

    def tables(self) -> tuple[Table, ...]:
        a = self.accounting
        sums = Table("Accounting", ("figure", "count", "must equal", "count", "state"), [
            ("source tensors", a.source_tensors, "converted + dropped + tied", a.converted + a.dropped + a.tied,
             _state(a.source_tensors == a.converted + a.dropped + a.tied)),
            ("tensors written", a.written, "tensors expected", a.expected, _state(a.written == a.expected)),
            ("numbers written", a.parameters, "numbers of the model", a.schema_parameters,
             _state(a.parameters == a.schema_parameters)),
            ("read back bit for bit", self.read_back, "tensors written", a.written,
             _state(self.read_back == a.written)),
        ])  # fmt: skip
        losses = Table("Changed by the precision", ("tensor", "max abs error"),
                       [(x.tensor, x.max_abs_error) for x in self.losses])  # fmt: skip
        odd = Table("Not finite", ("tensor", "NaN or infinite values"), [(x.tensor, x.count) for x in self.not_finite])
        notes = Table("Notes", ("note",), [(note,) for note in self.notes])
        return (sums, self.fate_table(), *(table for table in (odd, losses, notes) if table.rows))

    def fate_table(self) -> Table:
        """What became of the tensors: one row for those of all layers that have the same name, fate and form."""
        kinds = Counter(map(_kind, self.fates))
        alone = {_kind(f): (f.tensor, f.fate, ", ".join(f.targets), *_form(f)) for f in self.fates}
        rows = [((*kind, count) if count > 1 else (*alone[kind], count)) for kind, count in kinds.items()]
        columns = ("tensor", "fate", "becomes", "layout", "dtype", "shape", "tensors")
        return Table(f"Fate of every tensor ({LAYER} is the layer)", columns, rows)

    def properties(self) -> tuple[Property, ...]:
        a = self.accounting
        way = f"to {self.to}"
        return (
            verdict(f"conversion {way}: the accounting closes", a.closes, "every tensor counted in and out",
                    f"{a.converted} converted + {a.tied} tied + {a.dropped} dropped = {a.source_tensors}; "
                    f"{a.written} of {a.expected} written", "none"),
            verdict(f"conversion {way}: files read back bit for bit", self.read_back == a.written,
                    "digests of dtype, shape and bytes compared", f"{self.read_back} of {a.written} tensors", "none"),
            verdict(f"conversion {way}: every weight is a finite number", not self.not_finite,
                    "every number written was looked at",
                    f"{len(self.not_finite)} of {a.written} tensors with NaN or infinities", "none"),
        )  # fmt: skip


def _kind(fate: Fate) -> tuple[Any, ...]:
    return (pattern(fate.tensor), fate.fate, ", ".join(map(pattern, fate.targets)), *_form(fate))


def _form(fate: Fate) -> tuple[Any, ...]:
    return fate.layout, fate.dtype, fate.shape


def _state(ok: bool) -> str:
    return "pass" if ok else "failed"
