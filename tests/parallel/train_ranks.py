"""What each of two ranks does for `test_train.py`: one process group, and in it trainings under two layouts."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from mindspore import Tensor, ops

from mindport.model import GPT
from mindport.model.execution import execution
from mindport.model.parameters import fresh
from mindport.parallel.join import join
from mindport.ranks import Ranks
from mindport.training import Batch, Callback, Stepper, Trainer
from mindport.training.collective import gather, most, total
from mindport.training.kill_test import compare_runs
from mindport.training.reduce import MEBI, Buckets
from mindport.training.run_directory import RunDirectory
from mindport.training.start import described_model
from tests.training.runs import EVERY, config

SPOILT = "blocks.0.mlp.up.bias"
SHAPES = [(3, 2), (5,), (4,), (2, 2)]


def everything(path: str, out: str) -> dict[str, Any]:
    """All that two ranks are asked; figures and paths, in JSON."""
    file, runs = Path(path), Path(out)
    dp, tp = join(2, 1), join(1, 2)
    rows = Rows()
    found: dict[str, Any] = {"messages": messages(dp), "buckets": buckets(dp), "masked": masked(file, dp)}
    report = Trainer(config(file, runs / "dp", "parallel.dp=2"), [rows], ranks=dp).run()
    found["dp"] = {"step": report.step, "ok": report.ok, "rows": rows.seen, "tokens": rows.tokens}
    samples = ("monitor.sample_every=4", "monitor.prompts=[To be]", "monitor.sample_tokens=3")
    found["tp"] = run(file, runs / "tp", tp, "checkpoints.sharded=true", *samples).step
    killed(runs / "dp", runs / "again", dp)
    found["again"] = {"resumed": run(file, runs / "again", dp, resume=True).resumed}
    if dp.is_first:
        compared = compare_runs(RunDirectory(runs / "dp"), RunDirectory(runs / "again"))
        found["again"]["differences"] = compared.differences
    killed(runs / "dp", runs / "other", dp)
    found["other"] = list(run(file, runs / "other", tp, resume=True).warnings)
    graph = ("mode=graph", "parallel.bucket=0.001", "batch.accumulate=1", "steps=4")
    found["graph"] = run(file, runs / "graph", dp, *graph).compiled
    found["signal"] = told(Trainer(config(file, runs / "signal", "parallel.dp=2"), [Terminate()], ranks=dp).run())
    found["stop"] = told(Trainer(config(file, runs / "stop", "parallel.dp=2"), [Stop()], ranks=dp).run())
    found["spoilt"] = told(Trainer(config(file, runs / "spoilt", "parallel.dp=2"), [Spoil()], ranks=dp).run())
    return found


def run(file: Path, out: Path, ranks: Ranks, *settings: str, resume: bool = False) -> Any:
    layout = (f"parallel.dp={ranks.dp}", f"parallel.tp={ranks.tp}")
    return Trainer(config(file, out, *layout, *settings), quiet=True, ranks=ranks).run(resume=resume)


def told(report: Any) -> dict[str, Any]:
    return {
        "step": report.step, "code": report.exit_code, "ended": report.ended,
        "checkpoints": [path.name for path in report.checkpoints], "alarms": [a.text() for a in report.alarms],
    }  # fmt: skip


def killed(run: Path, copy: Path, ranks: Ranks) -> None:
    """What a process that was killed after its first checkpoint left, by the first rank."""
    if ranks.is_first:
        shutil.copytree(run, copy)
        for later in sorted((copy / "checkpoints").glob("step-*"))[1:]:
            shutil.rmtree(later)
        (copy / "report.json").unlink()
    most(ranks, [0.0])


def messages(ranks: Ranks) -> dict[str, Any]:
    """Odd bits, odd sizes, numbers that float32 does not hold."""
    odd = np.array([np.nan, -0.0, 1e-42, np.inf], np.float32) * (1 - 2 * ranks.rank)
    x = np.frombuffer(odd.tobytes() + bytes([ranks.rank, 255, 7]), np.uint8)
    return {"bits": gather(ranks, x), "sent": x, "total": total(ranks, (2.0**40 + ranks.rank, 0.1)),
            "most": most(ranks, (ranks.rank, -ranks.rank)), "share": total(ranks, [ranks.rank], "tp")}  # fmt: skip


def buckets(ranks: Ranks) -> dict[str, Any]:
    """Sums by bucket size in both modes, as bytes; and whether an overflow on one rank reaches the other."""
    generator = np.random.default_rng(ranks.rank)
    arrays = [generator.standard_normal(shape).astype(np.float32) for shape in SHAPES]
    found = {}
    for mode in ("pynative", "graph"):
        for limit in (0, 40, 1 << 20):
            cell = Buckets(SHAPES, ranks.dp_group, limit / MEBI)
            with execution(mode):
                sums, (loss, count) = cell(tuple(map(Tensor, arrays)), (Tensor(1.5 + ranks.rank), Tensor(2.0)))
                found[f"{mode} {limit}"] = [[x.asnumpy() for x in sums], float(loss.asnumpy()), float(count.asnumpy())]
    spoilt = [x if ranks.rank == 0 else np.full_like(x, np.inf) for x in arrays]
    sums, _ = Buckets(SHAPES, ranks.dp_group)(tuple(map(Tensor, spoilt)), (Tensor(0.0), Tensor(0.0)))
    return {"sums": found, "mine": arrays, "overflow": bool(np.isfinite(sums[0].asnumpy()).any())}


def masked(file: Path, ranks: Ranks) -> dict[str, Any]:
    """Rows of which the second replica's have few tokens that count, or none, beside one process that has all."""
    told, figures = config(file, file.parent, "batch.accumulate=1", "dropout=0"), {}
    model = described_model(told)[1]
    with execution("pynative"):
        one = Stepper(GPT(model, fresh(model, 1)), told)
        two = Stepper(GPT(model, fresh(model, 1), ranks=ranks), replace(told, parallel=replace(told.parallel, dp=2)))
        for step, hidden in enumerate((9, 12, 0, 24)):
            ids = np.random.default_rng(step).integers(1, 500, (2, 12), dtype=np.int32)
            labels = ids.copy()
            labels.reshape(-1)[24 - hidden :] = -100
            share = slice(ranks.rank, ranks.rank + 1)
            records = one.step([Batch(ids, labels)]), two.step([Batch(ids[share], labels[share])])
            figures[hidden] = [[r.loss, r.norm, r.counted, r.tokens, r.moved] for r in records]
        apart = max(np.abs(w.asnumpy() - two.weights[name].asnumpy()).max() for name, w in one.weights.items())
    return {"records": figures, "apart": float(apart)}


class Rows(Callback):
    """What this rank is fed."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.tokens: list[int] = []

    def on_batch(self, run: Trainer, batches: Any) -> None:
        self.seen += [row.tolist() for batch in batches for row in batch.ids]

    def on_step(self, run: Trainer, record: Any) -> None:
        self.tokens.append(record.tokens)


class Terminate(Callback):
    """A signal to the second rank alone."""

    def on_batch(self, run: Trainer, batches: Any) -> None:
        if run.step == 4 and run.ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)


class Stop(Callback):
    """A wish of the second rank alone."""

    def on_step(self, run: Trainer, record: Any) -> None:
        if record.step == 2 and run.ranks.rank == 1:
            run.stop("enough")


class Spoil(Callback):
    """One number of one weight, on the second rank alone."""

    def on_step(self, run: Trainer, record: Any) -> None:
        if record.step == EVERY + 1 and run.ranks.rank == 1:
            weight = run.stepper.weights[SPOILT]
            value = weight.asnumpy().copy()
            value[0] = np.nextafter(value[0], np.float32(1))
            ops.assign(weight, Tensor(value))
