"""The check-list of a run: `checklist.yaml` with the job's numbers, what helps against a full memory, what links do."""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from pathlib import Path

import numpy as np

from mindport.mindformers.data import UNKNOWN
from mindport.mindformers.networks import is_legacy
from mindport.parallel.plan import ESTIMATED, Candidate, Job, Plan, relief
from mindport.parallel.plan.collectives import Group, all_reduce
from mindport.parallel.plan.constants import read
from mindport.parallel.plan.result import GB
from mindport.parallel.route.scripts import TIMEOUT, hosts_of
from mindport.parallel.route.training import WEIGHTS, target_of
from mindport.tables import markdown, show

FILE = Path(__file__).with_name("checklist.yaml")
COLUMNS = ("", "what to look at", "command", "what it means", "what to do")
MESSAGE = 2**30  # bytes of the all-reduce that links are held to


def checklist(plan: Plan, best: Candidate, to_fill: tuple[tuple[str, str], ...], files: Container[str]) -> str:
    """The page, as Markdown.

    Args:
        plan: what was laid out, and how far its answer moves.
        best: the layout.
        to_fill: (file, what is missing in it).
        files: those that train.
    """
    job, items = plan.job, partial(_items, job=plan.job, best=best, files=files)
    expected = f"Expected: {best.needed / GB:.1f} of {best.limit / GB:.1f} GB on the fullest card, stage {best.stage}."
    expected += _close(plan)
    return "\n".join([
        f"# Check-list: {job.model.model_type}, {best.layout} on {job.devices} × {job.hardware.device}\n",
        f"Written by `mindport plan --out`. Every figure is {ESTIMATED}; no command below was run.\n",
        "## To fill in\n\n" + markdown(("file", "what"), to_fill),
        "## Before the start\n\n" + items("before"),
        f"## Out of memory\n\n{expected}\n\n" + items("memory"),
        "### What helps, in this order\n\nEach line has all those before it; `mindport plan --layout …` writes the new "
        "files.\n\n" + _relief(job, best),
        "## It hangs\n\n" + items("hang"),
        "## It is slow\n\n" + items("slow"),
        f"### All-reduce of {MESSAGE / 2**30:.0f} GiB: what to expect\n\n" + _links(job, best),
    ])  # fmt: skip


def fill_in(job: Job, weights: bool, files: Container[str], hosts: int) -> tuple[tuple[str, str], ...]:
    """What the files leave open: (file, what is missing)."""
    rows = [("launch.sh", "its arguments: the number of the host, the address of host 0")] if hosts > 1 else []
    if "train.yaml" in files:
        target = target_of(job.model)
        made = f"{WEIGHTS}, twice: what `mindport convert DIR OUT --to {target.name}` writes"
        data = f"MindRecord, its column input_ids of {job.seq + 1} tokens" if is_legacy(target) else (
            "the name of a Megatron .bin and .idx, without the suffix"
        )  # fmt: skip
        rows += [] if weights else [("train.yaml", made)]
        rows += [("train.yaml", f"{UNKNOWN}: {data}"), ("train.yaml", "optimizer, schedule and steps")]
    ours = [("train_ascend.py", "WEIGHTS=DIR before launch.sh, what `mindport convert` writes; its --tokens, LR and "
             "the rest at its head")]  # fmt: skip
    return (*rows, *(ours if "train_ascend.py" in files else []))


def _close(plan: Plan) -> str:
    """Constants that, at an end of their range, leave no room for the layout."""
    over = ", ".join(f"{end.constant} {end.value:g}" for end in plan.ends if not end.fits)
    return f" It no longer fits with {over}, within what is known of these constants." if over else ""


def _items(section: str, job: Job, best: Candidate, files: Container[str]) -> str:
    """One list, numbered, with this job's numbers."""
    told, rows = _numbers(job, best), []
    given = {None: True, "hosts": hosts_of(job) > 1, "ours": "train.yaml" in files and "train_ascend.py" in files}
    for item in read(FILE)[section]:
        if given[item.get("only")]:
            look, command, means, do = (item[key].format(**told) for key in ("look", "command", "means", "do"))
            rows.append((str(len(rows) + 1), look, f"`{command}`" if command else "", means, do))
    return markdown(COLUMNS, rows)


def _numbers(job: Job, best: Candidate) -> dict[str, object]:
    sizes = sorted(best.memory.items(), key=lambda part: -part[1])[:3]
    times = sorted(best.time.items(), key=lambda part: -part[1])[:4]
    return {
        "needed": f"{best.needed / GB:.1f}", "stage": best.stage, "ranks": job.devices, "timeout": TIMEOUT,
        "local": job.devices // hosts_of(job), "host": " HOST ADDRESS" if hosts_of(job) > 1 else "",
        "rate": f"{best.tokens_per_second:,.0f}",
        "seconds": f"{best.seconds:.3g}", "largest": ", ".join(f"{name} {size / GB:.1f} GB" for name, size in sizes),
        "shares": ", ".join(f"{name} {part / best.seconds:.0%}" for name, part in times),
    }  # fmt: skip


def _relief(job: Job, best: Candidate) -> str:
    rows = [("as planned", str(best.layout), f"{best.needed / GB:.1f}", "+0%", show(best.fits))]
    rows += [(step.measure, step.layout, f"{step.needed / GB:.1f}", f"{step.together:+.0%}", show(step.fits))
             for step in relief(job, best.layout).steps]  # fmt: skip
    return markdown(("measure", "layout", "GB a card", "time of a step", "fits"), rows)


def _links(job: Job, best: Candidate) -> str:
    """Time and bytes a second of one all-reduce, by the group that does it in this layout."""
    layout = best.layout
    groups = {"tensor parallelism": (layout.tp, 1), "replicas (gradients)": (layout.replicas, layout.tp),
              "a whole host": (min(job.devices, job.host_size), 1), "all cards": (job.devices, 1)}  # fmt: skip
    rows = []
    for name, (size, stride) in groups.items():
        if size > 1:
            group = Group(np.array([size]), np.array([stride]))
            seconds = float(all_reduce(job, np.array([float(MESSAGE)]), group)[0])
            speed = MESSAGE / seconds / 1e9
            bus = 2 * (size - 1) / size * speed
            rows.append((name, str(size), f"{seconds * 1e3:.1f}", f"{speed:.0f}", f"{bus:.0f}"))
    return markdown(("group", "cards", "ms", "GB/s (size / time)", "GB/s on the bus"), rows)
