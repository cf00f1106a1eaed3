"""The page of the planner: `python -m mindport.parallel.plan.page > docs/planner.md`; a test holds the two together."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mindport.mindformers.layout import parse_layout
from mindport.parallel.plan.constants import Constant, hardware, read
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.planner import plan
from mindport.parallel.plan.published import published_model
from mindport.parallel.plan.result import ESTIMATED
from mindport.parallel.plan.rules import RULES
from mindport.parallel.plan.validation import validate
from mindport.parallel.plan.validation_result import CLOSE, SHARE, Validation
from mindport.tables import Table, markdown, show

ROUTED = "dp1,tp4,pp8,sp,recompute-full,mb256"
COMMAND = "python -m mindport.parallel.plan.page > docs/planner.md"


def page(validation: Validation) -> str:
    """The page, as Markdown."""
    return "\n".join([
        f"# The planner\n\nWritten by `{COMMAND}`; a test holds it to the code and its data.\n",
        f"`mindport plan CONFIG --devices N` tries every layout of a training and ranks those that fit. Every figure "
        f"is {ESTIMATED}. What it is held to are throughputs that others published.\n",
        _NOTATION,
        f"## Against published rows\n\n{validation.headline()}\n",
        f"`mindport plan --validate` makes these tables, and fails unless every published layout is said to fit and at "
        f"least {SHARE:.0%} of the held-out rows, and of all rows, are within {CLOSE:.0%}. The efficiency is fitted on "
        "every other row, by a rule fixed beforehand; nothing else is fitted, and nothing is set per row. A margin of "
        f"up to {validation.room:.1%} would leave every row its memory. Everything published ran, so that memory is "
        "tested from one side only; whether a row would fit without the recomputation that it used is the other side's "
        "one hint, and no proof.\n",
        *(f"### {table.title}\n\n{_markdown(table)}"
          for table in validation.tables()),
        _LIMITS,
        _to_run(),
        f"## Rules\n\nA layout is refused under the first rule that it breaks.\n\n"
        f"{markdown(('rule', 'refused because'), [(rule.name, rule.reason) for rule in RULES])}",
        "## Constants\n\n`--set name=value` takes another. Sources conflict; the ranges are theirs, or what is "
        "plausible where there is none. Where a device has no line of its own, the line without a device holds.\n\n"
        + markdown(("of", "constant", "value", "range", "unit", "source"), _constants()),
    ])  # fmt: skip


_NOTATION = """A layout reads `dp2,tp4,pp8,zero1,sp,recompute-full,mb256`: 2 copies of the model (data parallel), each
matrix split over 4 cards (tensor), the layers over 8 stages (pipeline; `v2` after it: two chunks of layers take
turns on each stage, interleaved); `cp` splits the sequence (context); `zero1` to
`zero3` share out optimizer state, gradients, weights over the copies; `sp` splits by tokens what lies between the
matrices; `recompute-full` or `-selective` computes activations again; `mb` counts the micro-batches of a step.
"""

_ROUTE = """## From plan to run

`--out DIR` writes the files of a run of the best layout, or of the one that `--layout` names. For LLaMA2-70B's
config.json:
"""

_ROUTED = """The YAML comes from the exporter; `make peer` holds that to MindSpore Transformers' own loader and
arithmetic. `train_ascend.py` is MindPort's model with a strategy for each matrix, from the schema's tensor-parallel
axis: a test runs it on a CPU up to MindSpore's refusal, and no strategy was tried on a card. `environment.sh` sets only
variables that MindSpore or HCCL have (`mindport.parallel.variables` searches the package for them). What a file cannot
say of a layout is named, and that file is not written.
"""

_LIMITS = """## What it leaves out

- Of the size of a matrix product only the width counts (`half_width`), not the tokens: every further row of 2,048
  tokens a sample is predicted too fast, and so would be long rings of context parallelism.
- Data loading, compilation, checkpoints, stragglers, contention between servers.
- Interleaved pipelines of unequal chunks, other schedules than 1F1B, experts, offloading.
- Memory between operators is a margin; two published layouts recompute more than the estimate says that they need.
- The chip inside a server is assumed: model cards name the server.
"""


def _to_run() -> str:
    """What `--out` writes, by writing it."""
    from mindport.parallel.route import write_route  # a room that builds on this one

    job = Job(published_model("LLaMA2-70B"), hardware("910B"), 32, 4096, 256)
    with tempfile.TemporaryDirectory() as folder:
        report = write_route(plan(job, layout=parse_layout(ROUTED)), Path(folder) / "run")
        launch = (report.directory / "launch.sh").read_text(encoding="utf-8")
    files, left = report.tables()[:2]
    start = "".join(f"    {line}\n" for line in launch[launch.index("exec msrun") :].splitlines())
    command = f"    mindport plan llama2-70b --hosts 4 --layout {ROUTED} --out runs/70b\n"
    return "\n".join([_ROUTE, command, _markdown(files), _markdown(left), f"`launch.sh` ends in\n\n{start}", _ROUTED])


def _markdown(table: Table) -> str:
    return markdown(table.columns, [[show(cell) for cell in row] for row in table.rows])


def _constants() -> Iterator[tuple[str, ...]]:
    data = read()
    for generation, values in data["generations"].items():
        yield _constant(generation, "efficiency", Constant(**values["efficiency"]))
    for name, value in data["constants"].items():
        yield _constant("", name, Constant(**value))
    for device, own in data["devices"].items():
        yield from (_constant(device, name, Constant(**v)) for name, v in own.items() if isinstance(v, dict))


def _constant(of: str, name: str, c: Constant) -> tuple[str, ...]:
    return of or "every device", f"`{name}`", f"{c.value:.4g}", f"{c.low:.4g} to {c.high:.4g}", c.unit, c.source


if __name__ == "__main__":
    sys.stdout.write(page(validate()))
