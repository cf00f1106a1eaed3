"""Both directions as the same thing: moves from tensors that are there to tensors that are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.config import ConfigReport, dialect_for, schema
from mindport.errors import MappingError, some
from mindport.weights.conversion_report import Fate
from mindport.weights.dtypes import ADVICE, CODES, NUMPY, QUANTISED, raw
from mindport.weights.layouts import Shape
from mindport.weights.manifest import Source
from mindport.weights.plan import EMBED, Plan, Step, foreign_shapes, plan, table
from mindport.weights.readers import Reader
from mindport.weights.safetensors_io import Header, parse_header
from mindport.weights.store import Weights
from mindport.weights.writers import FileLayout, Specs, grouped_layout, new_layout

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True, slots=True)
class Move:
    """Some tensors in, some tensors out."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    turn: Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class Job:
    """A conversion, decided and not yet run.

    Attributes:
        plan: the fates and rows behind it.
        moves: in the order in which they read best.
        read: the values of a source tensor.
        sources: every source tensor's dtype and shape.
        targets: every wanted tensor's dtype and shape.
        layout: the safetensors files of the targets.
        fates: what becomes of each source tensor.
        restored: targets that repeat another one (a tied head).
    """

    plan: Plan
    moves: tuple[Move, ...]
    read: Callable[[str], np.ndarray]
    sources: Specs
    targets: Specs
    layout: FileLayout
    fates: tuple[Fate, ...]
    restored: tuple[str, ...] = ()


def import_job(reader: Reader, report: ConfigReport, dtype: str) -> Job:
    """Hugging Face → hub.

    Raises:
        MappingError: tensors are missing, unexpected, of a wrong shape or precision, or a tied head differs.
    """
    assert report.model is not None
    where, infos = reader.directory, reader.infos
    made = plan(report.dialect, report.model, {name: info.shape for name, info in infos.items()}, where)
    _check_precisions({name: infos[name].dtype for name, fate in made.fates().items() if fate != "dropped"}, where)
    _check_tied(reader, made)
    have = schema.shapes(report.model)
    origin = {name: step.foreign for step in made.steps for name in step.hub}
    targets = {name: (CODES.get(dtype, infos[origin[name]].dtype), shape) for name, shape in have.items()}
    steps = sorted(made.steps, key=lambda step: (infos[step.foreign].file, infos[step.foreign].offset))
    moves = [Move((s.foreign,), s.hub, _splitter(s.layout.to_hub, [have[n] for n in s.hub])) for s in steps]
    sources = {name: (info.dtype, info.shape) for name, info in infos.items()}
    layout = new_layout(targets, {"format": "np"})
    return Job(made, tuple(moves), reader.read, sources, targets, layout, _import_fates(made, reader))


def export_job(weights: Weights, dtype: str) -> Job:
    """Hub → Hugging Face, under the names and in the files that the source had."""
    source = weights.manifest.source
    made = table(dialect_for(weights.config.model_type), weights.config, None if source is None else source.prefix)
    copies = dict.fromkeys(source.tied_duplicates if source else (), (EMBED,))
    inputs = {step.foreign: step.hub for step in made.steps} | copies
    shapes = foreign_shapes(made)
    shapes |= dict.fromkeys(copies, shapes[made.embedding])
    targets = {
        name: (CODES.get(dtype) or _common_dtype(hub, weights.specs, weights.directory), shapes[name])
        for name, hub in inputs.items()
    }
    moves = [Move(step.hub, (step.foreign,), _joiner(step.layout.to_foreign)) for step in made.steps]
    moves += [Move((EMBED,), (name,), lambda xs: xs) for name in copies]
    fates = tuple(_export_fate(name, step, copies, weights) for step in made.steps for name in step.hub)
    layout = _source_layout(source, targets) if source else new_layout(targets, {"format": "pt"})
    return Job(made, tuple(moves), weights.__getitem__, weights.specs, targets, layout, fates, tuple(copies))


def _source_layout(source: Source, targets: Specs) -> FileLayout:
    """The files that the source had: with their very headers where the tensors are the same, else with new ones."""
    if source.format != "safetensors":
        return new_layout(targets, {"format": "pt"})
    headers = {file: parse_header(text.encode(), Path(file)) for file, text in source.headers.items()}
    if _specs(headers) == dict(targets):
        return FileLayout(headers, source.index)
    groups: dict[str, dict[str, tuple[str, Shape]]] = {}
    for name, file in source.tensors.items():
        if name in targets:
            groups.setdefault(file, {})[name] = targets[name]
    return grouped_layout(groups, source.metadata)


def _specs(headers: Mapping[str, Header]) -> Specs:
    return {name: (e.dtype, e.shape) for header in headers.values() for name, e in header.entries.items()}


def _import_fates(made: Plan, reader: Reader) -> tuple[Fate, ...]:
    steps = {step.foreign: step for step in made.steps}
    fates = made.fates()
    return tuple(
        Fate(name, fates[name], steps[name].hub if name in steps else (),
             steps[name].layout.name if name in steps else "", info.dtype, info.shape, info.file)
        for name, info in reader.infos.items()
    )  # fmt: skip


def _export_fate(name: str, step: Step, copies: Iterable[str], weights: Weights) -> Fate:
    becomes = (step.foreign, *(copies if name == EMBED else ()))
    return Fate(name, "converted", becomes, step.layout.name, *weights.specs[name], weights.file_of(name))


def _check_precisions(dtypes: Mapping[str, str], where: Path) -> None:
    odd = {name: dtype for name, dtype in dtypes.items() if dtype not in NUMPY}
    if odd:
        dtype = next(iter(odd.values()))
        raise MappingError(
            "tensors of a precision that is not converted", where=where,
            got=some([f"{name} {code}" for name, code in odd.items()]), expected="F32, F16 or BF16",
            do=ADVICE.get(dtype, QUANTISED),
        )  # fmt: skip


def _check_tied(reader: Reader, made: Plan) -> None:
    """The head's copy may go only if it is the embedding, byte for byte."""
    for name in made.tied:
        head, embedding = reader.read(name), reader.read(made.embedding)
        if head.dtype != embedding.dtype or not np.array_equal(raw(head), raw(embedding)):
            raise MappingError(
                "config.json ties the head to the embedding, but the file's head holds other values",
                where=f"{reader.directory}: {name}", got=f"differs from {made.embedding}",
                expected="equal bytes, or tie_word_embeddings = false",
                do="find out which of the two the model was trained with",
            )  # fmt: skip


def _common_dtype(names: Sequence[str], specs: Specs, where: Path) -> str:
    """The one precision of the tensors that are joined into one."""
    found = {specs[name][0] for name in names}
    if len(found) > 1:
        raise MappingError("tensors that are joined into one have several precisions", where=where,
                           got=", ".join(f"{name} {specs[name][0]}" for name in names),
                           do="convert with --dtype, which brings all to one")  # fmt: skip
    return found.pop()


def _splitter(to_hub: Callable[..., Arrays], shapes: Sequence[Shape]) -> Callable[[Arrays], Arrays]:
    return lambda xs: to_hub(xs[0], shapes)


def _joiner(to_foreign: Callable[[Arrays], np.ndarray]) -> Callable[[Arrays], Arrays]:
    return lambda xs: [to_foreign(xs)]
