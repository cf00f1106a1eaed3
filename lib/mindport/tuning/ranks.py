"""What the processes of `bench parallel` do: steps of one job in several layouts, taking turns, and bare messages.

`measure` is called on each rank of a job of two. A contestant of one process has a process of its own, which the first
rank asks while the other ranks sleep in a collective: so all take turns in the same minute.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from mindport.config import ModelConfig, from_dict
from mindport.model import GPT
from mindport.model.execution import execution
from mindport.parallel.join import join
from mindport.parallel.launch.environ import LEFT_BY_ANOTHER, TOKEN
from mindport.ranks import ALONE, Ranks
from mindport.training import Stepper
from mindport.training.collective import wait
from mindport.training.config import BatchConfig, DataConfig, OptimizerConfig, ScheduleConfig, TrainConfig
from mindport.training.config.train_config import ParallelConfig
from mindport.training.data.batch import Batch
from mindport.training.reduce import Buckets
from mindport.tuning import shapes
from mindport.tuning.contestant import Built, Contestant
from mindport.tuning.harness import take_turns
from mindport.tuning.race import Worker

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Task:
    """The fixed job; JSON values."""

    config: dict[str, Any]
    batch: int
    tokens: int

    @property
    def model(self) -> ModelConfig:
        return from_dict(self.config)


def measure(
    task: Mapping[str, Any], layouts: Mapping[str, Mapping[str, Any]], threads: Mapping[str, int], rounds: int,
    warm_up: int, sizes: Sequence[int], buckets: Sequence[float], calls: int,
) -> dict[str, Any]:  # fmt: skip
    """Everything, on one rank.

    Args:
        task: the fields of `Task`.
        layouts: contestants of all ranks: name → dp, tp, bucket, reduce (false: replicas exchange nothing).
        threads: contestants of one process: name → how many it computes with.
        rounds: turns of each.
        warm_up: steps before them, whose losses are compared.
        sizes: bytes of the bare messages.
        buckets: MiB of the buckets in which the gradients are added up.
        calls: of each message and each bucket.

    Returns:
        `seconds` and `losses` by contestant, and what `messages` found. A rank has no seconds of what it did not run,
        and what is not of all ranks only the first one has.
    """
    job = Task(**task)
    runners = {name: Layout(job, **layout) for name, layout in layouts.items()}
    ranks = next(iter(runners.values())).ranks
    with _alone(job, threads, warm_up) if ranks.is_first else contextlib.nullcontext({}) as workers:
        for runner in runners.values():
            for _ in range(warm_up):
                runner()
        turns: dict[str, Callable[[], Sequence[float]]] = {
            name: _elsewhere(ranks, workers.get(name)) for name in threads
        }
        turns |= {name: _timed(runner, runner.ranks) for name, runner in runners.items()}
        seconds = take_turns(turns, rounds)
        losses = {name: list(runner.losses[:warm_up]) for name, runner in runners.items()}
        losses |= {name: [float(x) for x in worker.values().values()][:warm_up] for name, worker in workers.items()}
    return {"rank": ranks.rank, "seconds": seconds, "losses": losses, **messages(job, ranks, sizes, buckets, calls)}


class Layout:
    """One step of the job on all ranks; called, it takes it.

    Args:
        job: the model and its batch.
        dp, tp: the grid.
        bucket: MiB.
        reduce: whether replicas add up their gradients; without, each goes its own way, and it is no training.
    """

    def __init__(self, job: Task, dp: int = 1, tp: int = 1, bucket: float = 16.0, reduce: bool = True) -> None:
        self.ranks, self.losses = ALONE if dp * tp == 1 else join(dp, tp), list[float]()
        self.stepper = stepper(job, self.ranks, bucket)
        if not reduce and self.stepper.many is not None:
            self.stepper.many.move.reduce = None
        rows = shapes.batch(job.batch, job.tokens, job.model.vocab_size)
        own = rows[self.ranks.dp_rank :: dp]
        self.batch = Batch(own, own)

    def __call__(self) -> None:
        record = self.stepper.step([self.batch])
        self.losses.append(record.loss)
        self.stepper.optimizer.weights[-1].asnumpy()  # a step ends when its weights have moved


def stepper(job: Task, ranks: Ranks = ALONE, bucket: float = 16.0) -> Stepper:
    """The step that a training takes, with the settings of the other benchmarks."""
    config = TrainConfig(
        data=DataConfig(tokens=job.tokens), batch=BatchConfig(rows=job.batch), schedule=ScheduleConfig("constant"),
        parallel=ParallelConfig(ranks.dp, ranks.tp, bucket),
        optimizer=OptimizerConfig(lr=shapes.LEARNING_RATE, max_norm=shapes.MAX_NORM),
    )  # fmt: skip
    with execution(config.mode):
        return Stepper(GPT(job.model, shapes.weight, ranks=ranks), config)


def alone(*, config: dict[str, Any], batch: int, tokens: int) -> Built:
    """The same step in one process: a contestant as the other benchmarks have them."""
    layout = Layout(Task(config, batch, tokens))
    return Built(layout, lambda: shapes.losses(layout.losses), {"threads": int(os.environ.get("OMP_NUM_THREADS", 0))})


def messages(job: Task, ranks: Ranks, sizes: Sequence[int], buckets: Sequence[float], calls: int) -> dict[str, Any]:
    """Between the ranks, as fields of `Message`: bare ones by size; the gradients by bucket; those of a step of tp."""
    dp, tp = join(ranks.size, 1), join(1, ranks.size)
    weights = [weight.shape for weight in stepper(job, dp).optimizer.weights]
    by_size = [{"bytes": size, "seconds": _median(_reduction([size], tp), tp, calls)} for size in sizes]
    cells = [Buckets(weights, dp.dp_group, mebibytes) for mebibytes in buckets]
    gradients = tuple(Tensor(np.ones(shape, np.float32)) for shape in weights)
    scalars = (Tensor(1.0, ms.float32), Tensor(1.0, ms.float32))
    whole = sum(FLOAT * math.prod(shape) for shape in weights)
    by_bucket = [
        {"mebibytes": mebibytes, "bytes": whole, "messages": cell.messages,
         "seconds": _median(lambda cell=cell: cell(gradients, scalars)[1][0], dp, calls)}
        for mebibytes, cell in zip(buckets, cells, strict=True)
    ]  # fmt: skip
    sent = tensor_messages(job, ranks.size)
    tensor = {"messages": len(sent), "bytes": sum(sent), "seconds": _median(_reduction(sent, tp), tp, calls)}
    return {"collectives": by_size, "buckets": by_bucket, "tensor": tensor}


def tensor_messages(job: Task, processes: int) -> list[int]:
    """Bytes of what one step of tensor parallelism adds up, one message after the other.

    Hidden states, four times a layer, once for the embedding, once before the head; of the loss, three numbers of each
    rank for each row, see `model.collectives.MeanAndSums`; of the norm of the gradients a number.
    """
    rows = job.batch * job.tokens
    hidden = FLOAT * rows * job.model.hidden_size
    return [hidden] * (4 * job.model.num_hidden_layers + 2) + [FLOAT * rows * 3 * processes, FLOAT]


class Reductions(nn.Cell):
    """arrays → their sums over the ranks, one message after the other."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.sum, self.depend = ops.AllReduce(group=group), ops.Depend()

    def construct(self, arrays: tuple[Tensor, ...]) -> Tensor:
        last = arrays[0]
        for array in arrays:
            last = self.sum(self.depend(array, last))
        return last


def _reduction(sizes: Sequence[int], ranks: Ranks) -> Callable[[], Tensor]:
    cell = Reductions(ranks.tp_group)
    arrays = tuple(Tensor(np.ones(size // FLOAT, np.float32)) for size in sizes)
    return lambda: cell(arrays)


def _median(run: Callable[[], Tensor], ranks: Ranks, calls: int) -> float:
    """Seconds of a call in Graph mode, from when all are there; the first, which compiles, does not count."""
    with execution("graph"):
        run().asnumpy()
        return statistics.median(_timed(lambda: run().asnumpy(), ranks)()[0] for _ in range(calls))


def _timed(run: Callable[[], object], ranks: Ranks) -> Callable[[], Sequence[float]]:
    def timed() -> list[float]:
        wait(ranks)
        start = time.perf_counter()
        run()
        return [time.perf_counter() - start]

    return timed


def _elsewhere(ranks: Ranks, worker: Worker | None) -> Callable[[], Sequence[float]]:
    """A turn of a process of its own: the first rank asks it, the others wait for the first."""

    def turn() -> Sequence[float]:
        wait(ranks)
        return [] if worker is None else worker.time(1)

    return turn


@contextlib.contextmanager
def _alone(job: Task, threads: Mapping[str, int], warm_up: int) -> Iterator[dict[str, Worker]]:
    """A process for each of these, built and warm, which knows nothing of the job that this one belongs to."""
    settings = {"config": job.config, "batch": job.batch, "tokens": job.tokens}
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory(prefix="mindport-bench-") as folder:
        with _no_job():
            workers = {
                name: stack.enter_context(
                    Worker(Contestant(name, __name__, "alone", settings), Path(folder) / str(count), count)
                )
                for name, count in threads.items()
            }
        for worker in workers.values():
            worker.build(warm_up)
        yield workers


@contextlib.contextmanager
def _no_job() -> Iterator[None]:
    """Without the variables that msrun sets; the job's own mark stays, by which what is left over is found."""
    taken = {name: os.environ.pop(name) for name in LEFT_BY_ANOTHER if name in os.environ and name != TOKEN}
    try:
        yield
    finally:
        os.environ.update(taken)
