"""The folder of a planned run: YAML, start, dry run, environment, our own script, check-list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.errors import ConfigError, FileError, MindPortError, UsageError, some
from mindport.files import atomic_directory, check_replaceable, sweep
from mindport.mindformers.layout import Layout
from mindport.parallel.ascend import ascend_script, strategies_table
from mindport.parallel.plan import ESTIMATED, Candidate, Plan
from mindport.parallel.route import scripts
from mindport.parallel.route.checklist import checklist, fill_in
from mindport.parallel.route.training import SCRIPT, train_yaml
from mindport.results import Property, Result
from mindport.tables import Table

MARK = "checklist.md"
SAYS = {
    "train.yaml": "MindSpore Transformers' settings",
    "train_mindformers.py": "trains by them",
    "train_ascend.py": "MindPort's own model under the same layout",
    "launch.sh": "msrun, to be started on each host",
    "dryrun.sh": "compiles, and counts memory, without the cluster",
    "environment.sh": "variables that exist, each with its reason",
    "checklist.md": "out of memory, hanging, slow: what to look at, in order",
}


@dataclass(frozen=True)
class Route(Result):
    """What was written.

    Attributes:
        directory: the folder.
        plan: what it follows.
        hosts: servers that take part.
        files: their names.
        missing: by name of a file that could not be written: why.
        to_fill: (file, what is missing in it).
    """

    directory: Path
    plan: Plan
    hosts: int
    files: tuple[str, ...]
    missing: dict[str, str]
    to_fill: tuple[tuple[str, str], ...]

    @property
    def best(self) -> Candidate:
        assert self.plan.best is not None
        return self.plan.best

    @property
    def ok(self) -> bool:
        return "train.yaml" in self.files or "train_ascend.py" in self.files

    def headline(self) -> str:
        without = "".join(f"; no {name}: {reason}" for name, reason in self.missing.items())
        return (
            f"{self.directory}: {len(self.files)} files for {self.best.layout} on {self.hosts} host(s), "
            f"{len(self.to_fill)} things to fill in{without} ({ESTIMATED}; not run)"
        )

    def tables(self) -> tuple[Table, ...]:
        written = [(name, SAYS[name] if name in self.files else f"not written: {self.missing[name]}")
                   for name in SAYS if name in self.files or name in self.missing]  # fmt: skip
        own = [strategies_table(self.plan.job.model, self.best.layout)] if "train_ascend.py" in self.files else []
        return (Table("Files", ("file", "what it is"), written), Table("To fill in", ("file", "what"), self.to_fill),
                *own, *self.plan.tables())  # fmt: skip

    def properties(self) -> tuple[Property, ...]:
        return (Property("the files of a planned run start it on a cluster", "not verified", "no card here"),)

    def as_dict(self) -> dict[str, Any]:
        own = {"directory": str(self.directory), "hosts": self.hosts, "files": list(self.files),
               "missing": self.missing, "to_fill": [list(row) for row in self.to_fill]}  # fmt: skip
        return {"ok": self.ok, "headline": self.headline(), **own, "plan": self.plan.as_dict()}


def write_route(
    plan: Plan, directory: Path | str, weights: Path | str | None = None, hosts: int | None = None,
    overwrite: bool = False,
) -> Route:  # fmt: skip
    """Write the folder for the plan's best layout, whole or not at all.

    Args:
        plan: with a layout that fits.
        directory: the folder to make.
        weights: what `convert` wrote for MindSpore Transformers; None leaves a path to fill in in the YAML.
        hosts: servers, as a check; None takes as many as the cards fill.
        overwrite: replace an earlier folder of this kind.

    Raises:
        UsageError: nothing fits, nothing can train under the layout, or the cards do not fill so many hosts.
        FileError: the folder is there already, or `weights` is no such directory.
        ConfigError: the weights are another model's.
    """
    directory, job, best = Path(directory), plan.job, plan.best
    if best is None:
        raise UsageError("there is no layout to write files for", got="nothing fits", do="more cards, or a smaller job")
    full = scripts.hosts_of(job)
    if hosts not in (None, full):
        raise UsageError("the cards do not fill these hosts", got=f"{job.devices} cards, {hosts} hosts",
                         expected=f"{full} of {job.host_size} cards", do="see --host-size")  # fmt: skip
    texts, missing = _texts(plan, best, None if weights is None else Path(weights))
    if overwrite:
        check_replaceable(directory, MARK)
        _check_alone(directory)
    sweep(directory)
    with atomic_directory(directory, overwrite=overwrite) as aside:
        for name, text in texts.items():
            (aside / name).write_text(text, encoding="utf-8")
            (aside / name).chmod(0o755 if name.endswith(".sh") else 0o644)
    filled = fill_in(job, weights is not None, texts, full)
    return Route(directory, plan, full, tuple(texts), missing, filled)


def _check_alone(directory: Path) -> None:
    """Refuse to replace what a run has left beside our files, such as its logs and checkpoints.

    Raises:
        FileError: something else lies there.
    """
    if directory.is_dir() and (others := sorted({path.name for path in directory.iterdir()} - SAYS.keys())):
        raise FileError("overwriting would remove what is not of the plan", where=directory, got=some(others),
                        do="name another directory, or move these away")  # fmt: skip


def _texts(plan: Plan, best: Candidate, weights: Path | None) -> tuple[dict[str, str], dict[str, str]]:
    """The files, and why others cannot be written."""
    job, texts, missing = plan.job, {}, {}
    try:
        texts |= {"train.yaml": train_yaml(job, best, weights), "train_mindformers.py": SCRIPT}
    except (ConfigError, UsageError) as error:
        if weights is not None:  # asked for, so that it is not left out quietly
            raise
        missing["train.yaml"] = _reason(error)
    try:
        texts["train_ascend.py"] = ascend_script(job.model, best.layout, best.batch, job.seq, job.dtype)
    except (ConfigError, UsageError) as error:
        missing["train_ascend.py"] = _reason(error)
    if not texts:
        raise UsageError("nothing can train under this layout", where=best.layout, got="; ".join(missing.values()),
                         do="name another --layout or --dtype; the reasons say which")  # fmt: skip
    filled = fill_in(job, weights is not None, texts, scripts.hosts_of(job))
    texts |= {"launch.sh": scripts.launch(job, best, texts), "dryrun.sh": scripts.dryrun(job, best, texts),
              "environment.sh": scripts.environment(job, best),
              "checklist.md": checklist(plan, best, filled, tuple(texts))}  # fmt: skip
    return texts, missing


def _reason(error: MindPortError) -> str:
    """Why, in one line; the layout itself stands before it."""
    got = None if isinstance(error.got, Layout) else error.got
    return ": ".join(str(part) for part in (error.what, got, error.expected) if part is not None)
