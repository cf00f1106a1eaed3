"""Text to rows of tokens on the disk, once; what is finished when the process is killed is not done again.

out/parts/00000.npz      tokens of a part of the text, until all is done
out/writing/             MindRecord files that are being written
out/train-512-00000.mindrecord, …, out/manifest.json        the result; the manifest comes last
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from pathlib import Path
from typing import Any

from mindport.errors import FileError, some
from mindport.files import flush, locked, sha256, umask
from mindport.machine import versions
from mindport.training.config import DataConfig
from mindport.training.data import pool
from mindport.training.data.assemble import Assembled, assemble
from mindport.training.data.documents import form_of
from mindport.training.data.files import HELD_OUT, TRAIN, Part, check_named, find, parts
from mindport.training.data.manifest import NAME, Manifest, check_files, describe_files, read_manifest
from mindport.training.data.report import DataReport
from mindport.training.data.shard import is_whole, key_of
from mindport.training.data.tokenizer import Tokenizer, digest, read_tokenizer

PARTS, WRITING, LOCK = "parts", "writing", ".lock"
RECORDS = (".mindrecord", ".mindrecord.db")
ELSEWHERE = ("directory", "workers")  # fields of the configuration that change nothing in the result


def prepare(
    config: DataConfig, model_dir: Path | str, out: Path | str, *, vocab_size: int, seed: int, progress: bool = True
) -> DataReport:
    """Tokenise text with a model's own tokenizer, and write rows as MindRecord.

    A second call with the same arguments finds the result, or goes on where an interrupted one ended.

    Args:
        config: which text, and what rows.
        model_dir: a Hugging Face or MindPort directory: tokenizer.json, config.json, a chat template.
        out: where the rows go; nothing else may be there.
        vocab_size: rows of the model's embedding.
        seed: of the share that is held out.
        progress: whether stderr is told how far it is.

    Raises:
        FileError: a text, the tokenizer or the template is at fault (with file and line), or `out` holds other data.
        UsageError: there is no text; another process prepares there.
        BackendError: a process that tokenises ended.
    """
    began, model, out = time.monotonic(), Path(model_dir), Path(out)
    check_named(config.train)
    tokenizer = read_tokenizer(model, vocab_size)
    request = _request(config, tokenizer, vocab_size, seed)
    files = {TRAIN: find(config.train, TRAIN), HELD_OUT: find(config.held_out, HELD_OUT)}
    with _held(out):
        if (out / NAME).is_file():
            return DataReport(out, _found(out, request, files), fresh=False, seconds=time.monotonic() - began)
        _check_free(out)
        named = [(path, split) for split, paths in files.items() for path in paths]
        todo = [part for path, split in named for part in parts(path, split, tokenizer.marks)]
        kept = _tokenise(todo, config, model, request, out, progress)
        manifest = _write(config, todo, request, tokenizer, files, out)
        shutil.rmtree(out / PARTS)
    return DataReport(out, manifest, True, kept, len(todo), time.monotonic() - began)


def _request(config: DataConfig, tokenizer: Tokenizer, vocab_size: int, seed: int) -> dict[str, Any]:
    asked = {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if f.name not in ELSEWHERE}
    asked = {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()}
    template, model = {}, tokenizer.directory
    if form_of(config.column)[0] == "chat":
        names = ("chat_template.jinja", "tokenizer_config.json")
        template = {name: sha256(model / name) for name in names if (model / name).is_file()}
    special = {"before": [*tokenizer.before], "after": [*tokenizer.after], "pad": tokenizer.pad}
    return {"config": asked, "tokenizer": digest(model), "special": special, "template": template,
            "vocab_size": vocab_size, "seed": seed}  # fmt: skip


def _found(out: Path, request: dict[str, Any], files: dict[str, list[Path]]) -> Manifest:
    """An earlier result, if it is what is asked for."""
    manifest = read_manifest(out)
    was, now = ({**asked["config"], **asked} for asked in (manifest.request, request))
    changed = [name for name in now if name not in ("config", *files) and was.get(name) != now[name]]
    changed += [] if _is_same_text(manifest.sources, files) else ["text"]
    if changed:
        raise FileError("the directory holds text that was prepared in another way", where=out,
                        got=some(f"{name} {str(was.get(name, 'of then'))[:60]}" for name in changed),
                        expected=some(f"{name} {str(now.get(name, 'of now'))[:60]}" for name in changed),
                        do="name another directory (data.directory), or remove this one")  # fmt: skip
    check_files(out, manifest)
    return manifest


def _is_same_text(sources: list[dict[str, Any]], files: dict[str, list[Path]]) -> bool:
    """Whether the files are those of then: by name, size and time of change, or else by digest."""
    named = [(split, path) for split, paths in files.items() for path in paths]
    return len(named) == len(sources) and all(
        source["split"] == split and (_stamp(path).items() <= source.items() or sha256(path) == source["sha256"])
        for source, (split, path) in zip(sources, named, strict=True)
    )


def _stamp(path: Path) -> dict[str, Any]:
    stat = path.stat()
    return {"path": str(path), "bytes": stat.st_size, "changed": stat.st_mtime_ns}


def _sources(files: dict[str, list[Path]], digests: dict[str, str]) -> list[dict[str, Any]]:
    """Each text; an empty file has no part, and so no digest yet."""
    named = [(split, path) for split, paths in files.items() for path in paths]
    return [{"split": split, **_stamp(path), "sha256": digests.get(str(path)) or sha256(path)} for split, path in named]


def _tokenise(
    todo: list[Part], config: DataConfig, model: Path, request: dict[str, Any], out: Path, progress: bool
) -> int:
    """Make the shards that are not there; returns how many were."""
    from mindport.weights.progress import progress as shown  # late: a process that tokenises needs no weights

    same = {"model": str(model.resolve()), "column": config.column, "vocab_size": request["vocab_size"],
            **{name: request[name] for name in ("tokenizer", "special", "template")}}  # fmt: skip
    jobs = [({"part": part.as_dict(), **same}, _shard(out, index)) for index, part in enumerate(todo)]
    missing = [(job, shard) for job, shard in jobs if not is_whole(shard, key_of(job))]
    (out / PARTS).mkdir(parents=True, exist_ok=True)
    with shown("tokenising", sum(job["part"]["size"] for job, _ in missing), show=progress) as done:
        pool.run(missing, config.workers, done)
    return len(jobs) - len(missing)


def _shard(out: Path, index: int) -> Path:
    return out / PARTS / f"{index:05d}.npz"


def _write(
    config: DataConfig, todo: list[Part], request: dict[str, Any], tokenizer: Tokenizer,
    files: dict[str, list[Path]], out: Path,
) -> Manifest:  # fmt: skip
    """Shards to MindRecord files and the manifest."""
    writing = out / WRITING
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir()
    shards = [(part.split, _shard(out, index)) for index, part in enumerate(todo)]
    done = assemble(shards, config, request["seed"], tokenizer.pad, writing)
    _check_counts(done, config)
    for path in out.iterdir():
        if path.name.endswith(RECORDS):  # of a call that was killed below
            path.unlink()
    names = sorted(path.name for path in writing.iterdir())
    for name in names:
        (writing / name).chmod(0o666 & ~umask())  # MindSpore makes it private; a result is shared
        flush(writing / name)
        (writing / name).replace(out / name)
    writing.rmdir()
    flush(out)
    digests = {part.path: part.sha256 for part in todo}
    manifest = Manifest(request, _sources(files, digests), done.splits(), done.leaked, done.shared,
                        describe_files(out, names), versions())  # fmt: skip
    manifest.write(out)
    return manifest


def _check_counts(done: Assembled, config: DataConfig) -> None:
    """Refuse a result with which nothing could be learned or measured."""
    for split, counts in done.counts.items():
        if counts.counted == 0:
            what = "learn from" if split == TRAIN else "measure on"
            other = done.counts[HELD_OUT if split == TRAIN else TRAIN].documents
            raise FileError(f"the text leaves nothing to {what}", where=", ".join(config.train + config.held_out),
                            got=f"{counts.documents} documents, {counts.empty} empty, {counts.idle} rows in which "
                            f"nothing counts, {done.leaked} on both sides; {other} on the other side",
                            do="name more text, held-out text (data.held_out), or longer rows")  # fmt: skip


def _check_free(out: Path) -> None:
    begun = (out / PARTS).is_dir()  # by an earlier call, which may have been killed while it moved its files here
    names = {path.name for path in out.iterdir()} - {PARTS, WRITING, LOCK}
    foreign = sorted(name for name in names if not (begun and name.endswith(RECORDS)))
    if foreign:
        raise FileError("the directory holds something else", where=out, got=some(foreign),
                        do="name another one: data.directory")  # fmt: skip


def _held(out: Path) -> contextlib.AbstractContextManager[None]:
    """Hold the directory for the time of the block."""
    if out.exists() and not out.is_dir():
        raise FileError("the rows' directory is a file", where=out, do="name another one: data.directory")
    return locked(out / LOCK, "another process prepares text in this directory",
                  "wait for it, or name another place: data.directory")  # fmt: skip
