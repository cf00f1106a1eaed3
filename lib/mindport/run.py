"""Run the notebooks in order, headlessly, and leave the report.

`<out>` holds what a run leaves: a JSON record a step, `run.json`, `card.json`, `index.html`, and `notebooks/`
with the executed copies. A notebook that stops ends the run; the report is written all the same.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

import mindport
from mindport import notebook, sources
from mindport.environment.system import available_memory
from mindport.errors import FileError, MindPortError, NotebookError, UsageError
from mindport.files import locked, write_json
from mindport.report import Report, gather, write_report
from mindport.report.card import RUN
from mindport.report.step import COMMAND_VARIABLE
from mindport.results import Property, Result
from mindport.sources.catalog import CATALOG
from mindport.tables import Table

Size = Literal["smoke", "small", "full"]
Only = str | Sequence[str] | None
Say = Callable[[str], None]

CELL_SECONDS = {"smoke": 300, "small": 900, "full": 3600}
FRAMEWORKS = 2 * 2**30  # bytes that mindspore, torch and transformers take before any weight
COPIES = 8  # bytes in memory for a byte of 2-byte weights: float32 in both frameworks, twice


@dataclass(frozen=True)
class NotebookRun:
    """How one notebook ended.

    Attributes:
        name: its stem ("02_weight_conversion").
        state: done, failed, or not run.
        minutes: wall time.
        error: the message when it failed.
    """

    name: str
    state: Literal["done", "failed", "not run"] = "not run"
    minutes: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class RunReport(Result):
    """What a run did, and the report it left."""

    model: str
    size: str
    out: Path
    command: str
    notebooks: tuple[NotebookRun, ...]
    report: Report

    @property
    def ok(self) -> bool:
        """Nothing on the report card failed."""
        return self.report.ok

    def headline(self) -> str:
        minutes = sum(entry.minutes for entry in self.notebooks)
        return f"{self.model}: {self.report.headline()}; {minutes:.1f} min; {self.out / 'index.html'}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(entry.name, entry.state, f"{entry.minutes:.1f}") for entry in self.notebooks]
        return (Table("notebooks", ("notebook", "state", "minutes"), rows), *self.report.tables())

    def properties(self) -> tuple[Property, ...]:
        return self.report.properties()


@dataclass(frozen=True)
class _Plan:
    model: str
    size: Size
    out: Path
    kernel: str
    command: str
    notebooks: tuple[Path, ...]
    allow: str


def say(line: str) -> None:
    """One line of progress, on stderr."""
    print(line, file=sys.stderr, flush=True)


def run(
    model: str | None = None,
    *,
    size: Size = "small",
    only: Only = None,
    out: str | Path | None = None,
    kernel: str = "python3",
    progress: Say = say,
    notebooks: Path | None = None,
    allow: Sequence[str] = (),
) -> RunReport:
    """Run the notebooks on a model.

    Args:
        model: a Hugging Face directory or a name that `mindport fetch` knows; by default that of the size.
        size: "smoke" (tiny models, for CI), "small" (the bundled model), "full" (your model, named by `model`).
        only: two-digit steps to run ("02,03"); the records of other steps stay as they are.
        out: where the run is left; by default `runs/<model>` in the repository.
        kernel: the Jupyter kernel.
        progress: is given one line a notebook.
        notebooks: the directory of the notebooks; by default that of the repository.
        allow: unknown keys of config.json that you know to be harmless.

    Raises:
        UsageError: the arguments make no sense together, or another run is writing to `out`.
        FileError: the model or the notebooks are missing.
        NotebookError: a notebook stopped; the report is written all the same.
    """
    plan = _plan(model, size, only, out, kernel, notebooks or notebooks_directory(), allow)
    directory = _directory(plan.model, progress)  # before anything is written: a name may be mistyped
    alone = locked(plan.out / ".lock", "another run is writing here", "wait for it, or name another --out")
    with alone, _announced(plan.command):
        _warn_about_memory(directory, progress)
        _forget(plan)
        gather(plan.out)  # a damaged record of another step is said now, not after an hour
        entries = [NotebookRun(path.stem) for path in plan.notebooks]
        try:
            for index, path in enumerate(plan.notebooks):
                entries[index] = _one(plan, path, progress, f"[{index + 1}/{len(entries)}]")
        except BaseException as error:
            entries[index] = NotebookRun(entries[index].name, "failed", error=_reason(error))
            progress(f"stopped in {entries[index].name}; the report so far: {plan.out / 'index.html'}")
            raise
        finally:
            _record(plan, entries)
            report = write_report(plan.out)
    return RunReport(plan.model, plan.size, plan.out, plan.command, tuple(entries), report)


def notebooks_directory() -> Path:
    """The notebooks of the repository that this package is installed from.

    Raises:
        FileError: it was installed without them.
    """
    path = Path(mindport.__file__).parents[2] / "notebooks"
    if not any(path.glob("[0-9][0-9]_*.ipynb")):
        raise FileError(
            "the notebooks are not beside the package", where=path,
            do="install MindPort from a clone of its repository: pip install -e .",
        )  # fmt: skip
    return path


def _plan(
    model: str | None, size: Size, only: Only, out: str | Path | None, kernel: str, notebooks: Path,
    allow: Sequence[str],
) -> _Plan:  # fmt: skip
    if size not in CELL_SECONDS:
        raise UsageError("there is no such size", got=size, expected=", ".join(CELL_SECONDS))
    if model is None and size not in sources.BY_SIZE:
        raise UsageError("size full runs your own model", got="no model", do="name it: --model DIR")
    named = model or sources.BY_SIZE[size]
    model = named if sources.is_name(named) else str(Path(named).expanduser().resolve())
    target = Path(out) if out else notebooks.parent / "runs" / Path(model).name
    chosen = tuple(_chosen(sorted(notebooks.glob("[0-9][0-9]_*.ipynb")), only))
    command = _command(named, size, only, out, allow)
    return _Plan(model, size, target.resolve(), kernel, command, chosen, ",".join(allow))


def _chosen(paths: Sequence[Path], only: Only) -> list[Path]:
    if only is None:
        return list(paths)
    wanted = [part.strip().zfill(2) for part in (only.split(",") if isinstance(only, str) else only)]
    found = {path.stem[:2]: path for path in paths}
    if not wanted or (unknown := [name for name in wanted if name not in found]):
        raise UsageError("there is no such step", got=unknown if wanted else "none", expected=", ".join(found))
    return [path for name, path in found.items() if name in wanted]


def _command(model: str, size: Size, only: Only, out: str | Path | None, allow: Sequence[str]) -> str:
    steps = only if isinstance(only, str) else ",".join(only or ())
    options = {"--model": model, "--size": size, "--only": steps, "--out": out}
    words = [str(part) for pair in options.items() if pair[1] for part in pair]
    return shlex.join(["mindport", "run", *words, *(["--allow", *allow] if allow else [])])


def _directory(model: str, progress: Say) -> Path:
    """The directory of the model; one that has to be fetched and is not on this machine is fetched first."""
    ready = {item.name: item.ready for item in sources.available().items}
    if model in CATALOG and not ready[model]:
        progress(f"{model} is not on this machine: fetching it")
        sources.fetch(model, progress=progress)
    return sources.resolve(model)


def _one(plan: _Plan, path: Path, progress: Say, count: str) -> NotebookRun:
    start = time.monotonic()
    values = {"model": plan.model, "size": plan.size, "out": str(plan.out), "interactive": False, "allow": plan.allow}
    names = notebook.declared(path)
    if missing := sorted(values.keys() - names - {"allow"}):
        progress(f"{path.stem} declares no {', '.join(missing)}: its own values stand")
    notebook.execute(
        path, plan.out / "notebooks" / path.name, {name: values[name] for name in values.keys() & names},
        kernel=plan.kernel, cwd=path.parent.parent, timeout=CELL_SECONDS[plan.size], bar=sys.stderr.isatty(),
    )  # fmt: skip
    if not any(plan.out.glob(f"{path.stem[:2]}*.json")):
        raise NotebookError("the notebook ended without a record", where=path, do="its last cell calls report.write")
    minutes = (time.monotonic() - start) / 60
    progress(f"{count} {path.stem}: {minutes:.1f} min")
    return NotebookRun(path.stem, "done", minutes)


def _record(plan: _Plan, entries: Sequence[NotebookRun]) -> None:
    ended = datetime.now(timezone.utc).isoformat(timespec="seconds")
    record = {"command": plan.command, "model": plan.model, "size": plan.size, "ended": ended}
    record["weights"] = sources.provenance(sources.resolve(plan.model))
    write_json(plan.out / RUN, record | {"notebooks": [asdict(entry) for entry in entries]})


def _forget(plan: _Plan) -> None:
    """Remove what an earlier run left of these steps, so that nothing old can pass for new."""
    for path in plan.notebooks:
        step = path.stem[:2]
        for pattern in (f"{step}*.json", f"notebooks/{step}*", f"figures/{step}*"):
            for old in plan.out.glob(pattern):
                old.unlink()


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, MindPortError) else f"{type(error).__name__}: {error}"


def _warn_about_memory(directory: Path, progress: Say) -> None:
    weights = sum(path.stat().st_size for pattern in ("*.safetensors", "*.bin") for path in directory.glob(pattern))
    needed, free = FRAMEWORKS + COPIES * weights, available_memory()
    if free is not None and needed > free:
        progress(f"warning: this may take {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free")


@contextlib.contextmanager
def _announced(command: str) -> Iterator[None]:
    """Tell the kernels by which command they run, for the records they write."""
    before = dict(os.environ)
    os.environ |= {COMMAND_VARIABLE: command, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
