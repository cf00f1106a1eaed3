"""Both directions as the same thing: moves from tensors that are there to tensors that are wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.config import ConfigReport, dialect_for
from mindport.config.targets import MINDSPORE, TARGETS, Target
from mindport.errors import FileError, MappingError, some
from mindport.weights.conversion_report import Fate
from mindport.weights.dtypes import ADVICE, CODES, NUMPY, QUANTISED, raw
from mindport.weights.layouts import Shape
from mindport.weights.manifest import NAME, Source
from mindport.weights.plan import Plan, Step, foreign_shapes, plan, table
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


def import_job(reader: Reader, report: ConfigReport, dtype: str, target: Target = MINDSPORE) -> Job:
    """Hugging Face → the names of a target.

    Raises:
        ConfigError: the target cannot hold this model.
        MappingError: tensors are missing, unexpected, of a wrong shape or precision, or a tied head differs.
    """
    assert report.model is not None
    where, infos = reader.directory, reader.infos
    target.check(report.model, where)
    made = plan(report.dialect, report.model, {name: info.shape for name, info in infos.items()}, where)
    _check_precisions({name: infos[name].dtype for name, fate in made.fates().items() if fate != "dropped"}, where)
    _check_tied(reader, made)
    wanted = table(target.dialect, report.model)
    sources = {name: (info.dtype, info.shape) for name, info in infos.items()}
    targets = _targets(made.steps, wanted, sources, dtype, where)
    steps = sorted(made.steps, key=lambda step: (infos[step.foreign].file, infos[step.foreign].offset))
    fates = _fates(made, wanted.steps, made.fates(), sources, {name: info.file for name, info in infos.items()})
    layout = new_layout(targets, {"format": "np"})
    return Job(made, moves(steps, wanted.steps), reader.read, sources, targets, layout, fates)


def export_job(weights: Weights, dtype: str, target: Target | None = None) -> Job:
    """A converted directory → the names of another target, or (None) the names and files that the source had.

    Raises:
        ConfigError: the target cannot hold this model.
        FileError: the manifest does not know where the source had a tensor.
        MappingError: tensors that become one have several precisions.
    """
    config, source = weights.config, weights.manifest.source
    made = table(TARGETS[weights.manifest.target].dialect, config)
    if target is None:
        wanted = table(dialect_for(config.model_type), config, source.prefix if source else None)
        copies = tuple(source.tied_duplicates) if source else ()
    else:
        target.check(config, weights.directory)
        wanted, copies = table(target.dialect, config), ()
    targets = _targets(made.steps, wanted, weights.specs, dtype, weights.directory, copies)
    if source and not target:
        _check_source(source, wanted, copies, weights.directory)
    files = {name: weights.file_of(name) for name in weights.specs}
    fates = _fates(made, wanted.steps, made.fates(), weights.specs, files, copies)
    restored = tuple(Move((made.embedding,), (name,), lambda xs: xs) for name in copies)
    layout = _source_layout(source, targets) if source and not target else new_layout(targets, {"format": "pt"})
    return Job(
        wanted, (*moves(made.steps, wanted.steps), *restored), weights.__getitem__, weights.specs, targets, layout,
        fates, copies,
    )  # fmt: skip


def moves(source: Sequence[Step], target: Sequence[Step]) -> tuple[Move, ...]:
    """From tensors under one table to tensors under another: the smallest groups that share no parameter.

    GPT-2's c_attn alone becomes three tensors; LLaMA's q_proj, k_proj and v_proj become one linear_qkv.
    """
    groups: dict[str, set[str]] = {}
    for step in (*source, *target):
        joined = set(step.hub).union(*(groups.get(name, ()) for name in step.hub))
        groups |= dict.fromkeys(joined, joined)
    befores: dict[int, list[Step]] = {}
    afters: dict[int, list[Step]] = {}
    for steps, found in ((source, befores), (target, afters)):
        for step in steps:
            found.setdefault(id(groups[step.hub[0]]), []).append(step)
    return tuple(_move(before, afters[group]) for group, before in befores.items())


def _check_source(source: Source, wanted: Plan, copies: Sequence[str], where: Path) -> None:
    """Every tensor of the way back has one file."""
    names = [*(step.foreign for step in wanted.steps), *copies]
    odd = [name for name, count in Counter(names).items() if count > 1 or name not in source.tensors]
    if odd:
        raise FileError("the manifest is damaged", where=f"{where / NAME}: source", got=some(odd),
                        expected="a file for each tensor of the model", do="convert the model again")  # fmt: skip


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


def _targets(
    made: Sequence[Step], wanted: Plan, specs: Specs, dtype: str, where: Path, copies: Iterable[str] = ()
) -> Specs:
    """Every wanted tensor's precision and shape; `copies` repeat the embedding."""
    held = {name: (step.foreign, specs[step.foreign][0]) for step in made for name in step.hub}
    shapes = foreign_shapes(wanted)
    codes = {step.foreign: CODES.get(dtype) or _common(step, held, where) for step in wanted.steps}
    targets = {step.foreign: (codes[step.foreign], shapes[step.foreign]) for step in wanted.steps}
    return targets | dict.fromkeys(copies, targets[wanted.embedding])


def _fates(
    made: Plan, wanted: Sequence[Step], fates: Mapping[str, str], specs: Specs, files: Mapping[str, str],
    copies: Sequence[str] = (),
) -> tuple[Fate, ...]:  # fmt: skip
    """A row for every tensor that is there: what it becomes, and by which layouts."""
    after = {name: step for step in wanted for name in step.hub}
    becomes = {step.foreign: list(dict.fromkeys(after[name].foreign for name in step.hub)) for step in made.steps}
    becomes[made.embedding] += copies
    layouts = {step.foreign: _layouts(step, [after[name] for name in step.hub]) for step in made.steps}
    return tuple(
        Fate(name, fates[name], tuple(becomes.get(name, ())), layouts.get(name, ""), *specs[name], files[name])
        for name in specs
    )


def _layouts(before: Step, afters: Iterable[Step]) -> str:
    names = dict.fromkeys(step.layout.name for step in (before, *afters) if step.layout.name != "same")
    return ", ".join(names) or "same"


def _move(before: Sequence[Step], after: Sequence[Step]) -> Move:
    return Move(tuple(step.foreign for step in before), tuple(step.foreign for step in after), _through(before, after))


def _through(before: Sequence[Step], after: Sequence[Step]) -> Callable[[Arrays], Arrays]:
    """The values' way: out of the tensors of one table, into those of the other."""

    def turn(xs: Arrays) -> Arrays:
        hub = {name: part for step, x in zip(before, xs, strict=True) for name, part in step.parts(x).items()}
        return [step.layout.to_foreign([hub[name] for name in step.hub]) for step in after]

    return turn


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


def _common(step: Step, held: Mapping[str, tuple[str, str]], where: Path) -> str:
    """The one precision of the tensors that are joined into one; `held` is hub name → (tensor, precision)."""
    found = {held[name][1] for name in step.hub}
    if len(found) > 1:
        raise MappingError("tensors that are joined into one have several precisions", where=where,
                           got=", ".join(" ".join(held[name]) for name in step.hub),
                           do="convert with --dtype, which brings all to one")  # fmt: skip
    return found.pop()
