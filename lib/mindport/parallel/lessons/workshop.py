"""What notebook 06 works on: a training, short, for it runs under several layouts, and a job that needs a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mindport import sources
from mindport.config.constraints import tensor_parallel
from mindport.errors import UsageError
from mindport.mindformers import parse_layout
from mindport.parallel import plan
from mindport.parallel.ascend.script import unsupported
from mindport.parallel.plan.published import published_model
from mindport.tables import Table
from mindport.training.config import CheckpointConfig, MonitorConfig, TrainConfig
from mindport.training.lessons import lesson_config as of_notebook_05
from mindport.training.start import described_model

SMALLEST = "smoke"
STEPS = {SMALLEST: 20, "small": 4, "full": 4}
LR, DROPOUT = 1e-3, 0.1  # with dropout: the masks of all layouts must be those of one process
DEGREES = (2, 3, 4)  # of tensor parallelism that a workshop's machine can run
CLUSTER, CARDS, SEQ, BATCH = "LLaMA2-70B", 64, 4096, 512
KEPT = 2000  # layouts that are looked through for one that everything can say


def lesson_config(directory: Path | str, size: str, out: Path | str, steps: int = 0) -> TrainConfig:
    """A training that fits the time: from random weights at size smoke, else a few steps of a fine-tuning.

    Args:
        directory: a Hugging Face directory.
        size: smoke, small or full.
        out: of the run of the notebooks; the trainings get a folder in it.
        steps: how many; 0: as the size has it.
    """
    steps = steps or STEPS[size]
    config = of_notebook_05(directory, size, out, steps)
    lr = LR if size == "smoke" else config.optimizer.lr
    return replace(
        config, out=str(Path(out) / "parallel"), dropout=DROPOUT, optimizer=replace(config.optimizer, lr=lr),
        checkpoints=CheckpointConfig(every=max(1, steps // 2), keep=2, best=False),
        monitor=MonitorConfig(every=max(1, steps // 4), evaluate_every=0, evaluate_rows=8, tensorboard=False),
    )  # fmt: skip


def smallest(out: Path | str) -> TrainConfig:
    """The training of the lessons in which something goes wrong: of the smallest bundled model, whatever the size.

    Args:
        out: of it.
    """
    return replace(lesson_config(sources.resolve(sources.BY_SIZE[SMALLEST]), SMALLEST, out), out=str(out))


def layouts_for(config: TrainConfig, asked: str = "") -> list[str]:
    """The layouts to run: those asked for, or dp2 and the smallest tensor-parallel one that the model admits.

    Args:
        config: of the training.
        asked: with blanks between them: "dp2 tp2 dp2,tp2".
    """
    _, model = described_model(config)
    degrees = [f"tp{degree}" for degree in DEGREES if tensor_parallel(model, degree, whole_vocabulary=True).ok]
    return asked.split() or ["dp2", *degrees[:1]]


def cluster_job(config: TrainConfig, size: str) -> plan.Job:
    """What is planned: at size full the model itself, else one that needs a cluster; on 64 cards.

    Args:
        config: of the training.
        size: smoke, small or full.
    """
    model = described_model(config)[1] if size == "full" else published_model(CLUSTER)
    seq = min(SEQ, model.max_position_embeddings)
    return plan.Job(model, plan.hardware("910B"), devices=CARDS, seq=seq, global_batch=BATCH)


def traffic_table(job: plan.Job, layout: str) -> Table:
    """What the gradients' messages take of a step, one by one, fused, and partly hidden: estimates.

    Args:
        job: of the plan.
        layout: of the training; with replicas, or nothing travels.
    """
    rows = [
        (each.how, each.messages, f"{each.seconds:.3f}", f"{each.share:.1%}", f"{plan.speedup_limit(each.share):.2f}")
        for each in plan.traffic(job, parse_layout(layout))
    ]
    columns = ("how", "messages", "s a step", "share of the step", "faster without them, at most")
    return Table(f"gradients of {layout} ({plan.ESTIMATED})", columns, rows)


def plan_that_runs(job: plan.Job) -> plan.Plan:
    """The fastest layout that each file of a run can say: our own script has no context parallelism, for one.

    Args:
        job: what is planned.

    Raises:
        UsageError: there is none.
    """
    for each in plan.plan(job, keep=KEPT).ranked:
        if each.expressible == "yes" and not unsupported(each.layout, job.dtype):
            return plan.plan(job, layout=each.layout)
    raise UsageError("no layout that fits can be said by every file of a run", got=f"{job.devices} cards",
                     do="take more cards, or a smaller job")  # fmt: skip
