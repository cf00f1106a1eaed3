"""Step 06: a checkpoint in one layout → the same in another; the target appears whole and proved, or not at all.

Every array goes through `ms.transform_checkpoints`, a few at a time, with strategy files made from the schema; each
part of the result is compared with numpy's slice of the whole, and read back from the disk.

`zero1` and `zero2` cut the optimizer's means for the copies; `zero3` the weights too. What MindSpore's
`enable_parallel_optimizer` saves has its weights cut at every `optimizer_level`, by its documentation: it is `zero3`
here. As there, what is smaller than a threshold or does not divide stays whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mindport.config.constraints import pipeline, tensor_parallel
from mindport.errors import ConfigError, FileError, UsageError, some
from mindport.files import atomic_directory, check_apart, check_replaceable, sweep
from mindport.measure import memory
from mindport.mindformers import Layout, parse_layout
from mindport.mindformers.stages import split
from mindport.parallel.reshard import manifest as resharded
from mindport.parallel.reshard.entries import is_whole
from mindport.parallel.reshard.finish import finish_ranks, finish_whole
from mindport.parallel.reshard.foreign import open_foreign
from mindport.parallel.reshard.places import MOST, THRESHOLD, Place, grid, place
from mindport.parallel.reshard.report import Resharded, parts_of, rows_of
from mindport.parallel.reshard.side import MindSporeSide
from mindport.parallel.reshard.sink import Sink, rank_layouts, whole_layout
from mindport.parallel.reshard.source import Source, check_from, open_ranks, open_whole
from mindport.parallel.reshard.stream import AT_ONCE, Arrangement, Strategies, move, write_strategy
from mindport.training.checkpoint.write import STATE
from mindport.weights.manifest import NAME as CONVERTED
from mindport.weights.progress import progress as show_progress

FORMATS, TABLES = ("safetensors", "ckpt"), ("whole", "split", None)
STRATEGY = "strategy.ckpt"


@dataclass(frozen=True)
class _Options:
    """The arguments of `reshard`."""

    src: Path
    dst: Path
    after: Layout
    before: Layout | None
    model: Path | None
    vocabulary: str | None
    weights_only: bool
    threshold: int
    file_format: str
    overwrite: bool
    progress: bool
    at_once: int


class _Refuted(Exception):
    """Leaves the block of the directory, so that nothing is kept."""

    def __init__(self, result: Resharded) -> None:
        self.result = result


def reshard(
    src: Path | str,
    dst: Path | str,
    to: str | Layout,
    layout: str | Layout | None = None,
    *,
    model: Path | str | None = None,
    vocabulary: str | None = None,
    weights_only: bool = False,
    threshold: int = THRESHOLD,
    file_format: str = "safetensors",
    overwrite: bool = False,
    progress: bool = True,
    at_once: int = AT_ONCE,
) -> Resharded:
    """Write a checkpoint in another layout.

    A training's state goes along: the optimizer's means lie as their weights do, all else is whole on every rank.

    Args:
        src: a MindPort directory, a training's checkpoint, or folders rank_0 … of an earlier resharding or of a
            training with MindSpore or MindSpore Transformers.
        dst: the new directory: rank folders, or for one device a MindPort directory (with a training, its checkpoint).
        to: the new layout.
        layout: the present one; a directory of ours says it itself.
        model: the configuration, for rank folders that are not ours.
        vocabulary: "whole" or "split": tables of tokens under tensor parallelism; None for the default of the network
            whose names they have: legacy ones of MindSpore Transformers keep them whole (`vocab_emb_dp`).
        weights_only: leave a training's state behind.
        threshold: KB, for zero: MindSpore's `parallel_optimizer_threshold`.
        file_format: of rank folders: "safetensors" or "ckpt".
        overwrite: replace an earlier result.
        progress: show how far it is, on stderr.
        at_once: bytes that pass through memory together, see `stream`.

    Returns:
        The verdict; where it is negative nothing was kept.

    Raises:
        UsageError, ConfigError: the arguments make no sense together, or the model cannot be cut like that.
        FileError, MappingError: a file is missing, damaged, of another layout or model, or cannot be written.
        BackendError: MindSpore is missing.
    """
    options = _Options(
        Path(src), Path(dst), _layout(to), None if layout is None else _layout(layout),
        None if model is None else Path(model), vocabulary, weights_only, threshold, file_format, overwrite, progress,
        at_once,
    )  # fmt: skip
    _check_arguments(options)
    sweep(options.dst)
    memory.reset_peak()
    before = memory.resident()
    try:
        with MindSporeSide() as side, atomic_directory(options.dst, overwrite=overwrite) as aside:
            work = aside.parent / "work"
            work.mkdir()
            result = _write(options, _open(options, side, work), side, aside, work)
            return replace(result, memory=(memory.peak() - before, side.grew))
    except _Refuted as refuted:
        return refuted.result


def _open(options: _Options, side: MindSporeSide, work: Path) -> Source:
    if (options.src / resharded.NAME).exists():
        source = open_ranks(options.src, side, work)
    elif (options.src / CONVERTED).exists():
        source = open_whole(options.src)
    else:
        source = open_foreign(options.src, options.before, options.model, options.vocabulary, side, work)
    check_from(options.before, source.layout, options.src)
    _check_division(source, options.after)
    state = [name for name, entry in source.entries.items() if entry.kind != "weight"]
    if not options.weights_only or not state:
        return source
    entries = {name: entry for name, entry in source.entries.items() if entry.kind == "weight"}
    notes = (*source.notes, f"{len(state)} arrays of a training's state were left behind: --weights-only")
    return replace(source, entries=entries, record=None, notes=notes)


def _write(options: _Options, source: Source, side: MindSporeSide, aside: Path, work: Path) -> Resharded:
    """Move, prove, and finish the new directory.

    Raises:
        _Refuted: something is not as it should be.
    """
    target = Arrangement(_places(options, source), grid(options.after))
    whole = target.grid.ranks == 1
    layouts = (whole_layout(source.entries, STATE if source.record else "state.safetensors") if whole else
               rank_layouts(source.entries, target.places, target.grid))  # fmt: skip
    sink, done = Sink(aside, layouts), False
    total = sum(entry.nbytes for entry in source.entries.values())
    try:
        strategies = Strategies(
            write_strategy(side, work / STRATEGY, source.entries, Arrangement(source.places, source.grid), work / "s"),
            write_strategy(side, aside / STRATEGY, source.entries, target, aside / "strategy"),
        )
        with show_progress("resharding", total, show=options.progress) as advance:
            wrong = move(source, target, strategies, side, sink, work, advance, options.at_once)
        done = not wrong
    finally:
        sink.close(complete=done)
    wrong = wrong or sink.prove()
    if not wrong and options.file_format == "ckpt":
        wrong = sink.as_checkpoints(side, work)
    result = _result(options, source, target, tuple(wrong))
    if wrong:
        raise _Refuted(result)
    shutil.rmtree(work)
    finish = finish_whole if whole else finish_ranks
    return replace(result, files=finish(aside, source, options.after, target))


def _places(options: _Options, source: Source) -> dict[str, Place]:
    layers = split(source.manifest.model.num_hidden_layers, options.after.pp)
    whole = is_whole(source.manifest.target, options.vocabulary)
    return {name: place(entry, options.after, layers, whole_vocabulary=whole, threshold=options.threshold)
            for name, entry in source.entries.items()}  # fmt: skip


def _result(options: _Options, source: Source, target: Arrangement, wrong: tuple[str, ...]) -> Resharded:
    compared, nbytes = parts_of(source.entries, target.places, target.grid)
    return Resharded(
        source=options.src, target=options.dst, before=str(source.layout), after=str(options.after),
        names=source.manifest.target, rows=rows_of(source.entries, target.places, target.grid), files=(),
        arrays=len(source.entries), state=sum(entry.kind != "weight" for entry in source.entries.values()),
        compared=compared, nbytes=nbytes, wrong=wrong, notes=(*source.notes, *_notes(options, source, target)),
    )  # fmt: skip


def _notes(options: _Options, source: Source, target: Arrangement) -> Iterator[str]:
    """What a reader of the layout would not expect."""
    after, model = options.after, source.manifest.model
    if after.sequence_parallel or after.recompute != "none" or after.micro_batches > 1:
        yield "sp, recompute and mb leave the weights where they are"
    if after.cp > 1:
        yield f"cp{after.cp}: its ranks hold copies, so there are {target.grid.ranks} folders"
    if model.num_hidden_layers % after.pp:
        yield f"layers of each stage: {', '.join(map(str, split(model.num_hidden_layers, after.pp)))}"
    tables = [e.name for e in source.entries.values() if e.vocabulary and target.places[e.name].axis is None]
    if after.tp > 1 and tables and is_whole(source.manifest.target, options.vocabulary):
        yield f"{some(tables)}: whole, as `vocab_emb_dp: True` has it"
    elif after.tp > 1 and tables:
        yield (f"{some(tables)}: {model.vocab_rows} rows do not divide by {after.tp}, so they stay whole; "
               "`mindport convert --padded-vocab` declares padding where there is some")  # fmt: skip
    yield from _zero_notes(options, source, target)


def _zero_notes(options: _Options, source: Source, target: Arrangement) -> Iterator[str]:
    zero = options.after.zero
    if not zero:
        return
    cut = sum(place.shards > 1 for place in target.places.values())
    if target.grid.copies == 1:
        yield f"zero{zero}: there is one copy, and nothing to share out"
    elif zero < 3 and not any(entry.kind == "mean" for entry in source.entries.values()):
        yield f"zero{zero}: there is no optimizer's state here, and weights are cut by zero3 only"
    else:
        yield (f"zero{zero}: {cut} arrays are cut for the copies; what is below {options.threshold} KB "
               "(parallel_optimizer_threshold) or does not divide stays whole")  # fmt: skip
    if zero < 3:
        yield "MindSpore's enable_parallel_optimizer cuts the weights too, at every optimizer_level: that is zero3"


def _check_division(source: Source, after: Layout) -> None:
    """Heads and the MLP's width must divide; tables of tokens may stay whole.

    Raises:
        ConfigError: they do not.
    """
    model = source.manifest.model
    rules = (tensor_parallel(model, after.tp, whole_vocabulary=True), pipeline(model, after.pp))
    if broken := [rule for rule in rules if not rule.ok]:
        raise ConfigError("the checkpoint cannot be cut by this layout", where=after,
                          got="; ".join(f"{rule.name}: {rule.got}" for rule in broken),
                          expected="; ".join(rule.expected for rule in broken),
                          do="; ".join(rule.do for rule in broken))  # fmt: skip


def _layout(text: str | Layout) -> Layout:
    layout = text if isinstance(text, Layout) else parse_layout(text)
    if layout.interleave > 1:
        raise UsageError("an interleaved pipeline's stages have layers from several places; they are not resharded",
                         got=layout, expected="one chunk of layers a stage", do="leave v out")  # fmt: skip
    if (ranks := grid(layout).ranks) > MOST:
        raise UsageError("each rank gets a folder, and these are too many", got=f"{layout}: {ranks:,} ranks",
                         expected=f"at most {MOST:,}")  # fmt: skip
    return layout


def _check_arguments(options: _Options) -> None:
    for name, value, allowed in (("format", options.file_format, FORMATS), ("vocabulary", options.vocabulary, TABLES)):
        if value not in allowed:
            raise UsageError(f"no such {name}", got=repr(value), expected=", ".join(filter(None, allowed)))
    if options.threshold < 0 or options.at_once < 1:
        raise UsageError("a size is 0 or more", got=f"threshold {options.threshold}, at_once {options.at_once}")
    if not options.src.is_dir():
        raise FileError("there is no such directory", where=options.src, do="name a checkpoint's directory")
    check_apart(options.src, options.dst)
    whole = grid(options.after).ranks == 1
    if whole and options.file_format == "ckpt":
        raise UsageError("one device gets a MindPort directory, of safetensors", got=f"--to {options.after}",
                         do="leave --format out, or convert the result with --format ckpt")  # fmt: skip
    if whole and (options.src / CONVERTED).exists():
        raise UsageError("the directory is one for one device already", where=options.src, got=f"--to {options.after}",
                         do="load it as it is, or, where it lies in shares, after `mindport gather`")  # fmt: skip
    if options.overwrite:
        mark = CONVERTED if (options.dst / CONVERTED).exists() else resharded.NAME
        check_replaceable(options.dst, mark)
