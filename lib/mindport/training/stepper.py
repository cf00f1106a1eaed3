"""A training, step by step, as its configuration wants it: batches in, records out, and the state for a resume."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn

from mindport.errors import UsageError
from mindport.model import GPT, NextTokenLoss
from mindport.model.execution import execution
from mindport.training import build
from mindport.training.accumulate import AccumulatedStep
from mindport.training.collective import total
from mindport.training.compile_counter import CompileCounter
from mindport.training.config import TrainConfig
from mindport.training.data.batch import Batch
from mindport.training.reduce import Buckets
from mindport.training.state import put_back
from mindport.training.step import TrainStep
from mindport.training.step_record import StepRecord

NOTHING = (math.nan, math.nan, math.nan)  # loss, norm and rate of a step in which no token counts


class Stepper:
    """Optimizer, schedule, loss scale and accumulation of a configuration around a model.

    What the configuration says of the model itself (precision, recompute, dropout) is for whoever builds that. In
    Graph mode a step is one graph for each shape of rows, and with accumulation or replicas one more, which moves the
    weights.

    Replicas add up what each made of its rows, and each token weighs the same. That takes the buffer of an accumulated
    step, four bytes a parameter: a sum can be zero where a replica's rows have nothing that counts, a mean cannot.

    Args:
        model: what is trained, or this process's share of it.
        config: of the training.

    Attributes:
        taken: steps so far, skipped ones included.
        compiles: counts graphs, and warns of those that should not have been necessary.

    Raises:
        UsageError: the configuration makes no optimizer or schedule.
    """

    def __init__(self, model: GPT, config: TrainConfig) -> None:
        self.model, self.config, self.ranks, self.taken = model, config, model.ranks, 0
        self.rows, self.lengths = config.batch.rows // self.ranks.dp, _lengths(config)
        self.optimizer = build.optimizer(model.trainable_params(), config.optimizer)
        self.scaling, self.counter = build.loss_scale(config.precision), model.counter
        self.one = TrainStep(
            model, NextTokenLoss(model), self.optimizer, build.schedule(config), config.optimizer.max_norm,
            scaling=self.scaling, counter=self.counter,
        )  # fmt: skip
        self.many = self._many()
        self.held_out = NextTokenLoss(model)
        cells: list[nn.Cell] = [self.one] if self.many is None else [self.many.add, self.many.move]
        self.compiles = CompileCounter([*cells, self.held_out])
        if config.mode == "graph" and len(self.lengths) == 1:
            declared = Tensor(shape=[self.rows, *self.lengths], dtype=ms.int32)
            cells[0].set_inputs(declared, declared)  # whoever calls the cell itself gets no second graph either

    def step(self, batches: Sequence[Batch]) -> StepRecord:
        """Learn from `config.batch.accumulate` batches, of which each replica has its rows.

        Batches in which no token counts are left out; where that is all of them nothing moves, and loss, norm and
        rate are NaN. The record's time is that of the step alone. MindSpore computes behind Python's back: an error
        of any operator shows when the loss is asked for, here at the end of the step, under another name perhaps.

        Raises:
            UsageError: another number of batches, or one of another shape than the configuration's.
        """
        self._check(batches)
        if not self.model.training:  # whoever evaluated has left it so; no graph would notice, PyNative would
            self.model.set_train()
        began, before, scale = time.perf_counter(), self.compiles.total, self.loss_scale
        counted = [int(n) for n in total(self.ranks, [batch.counted for batch in batches])]
        told = [batch for batch, n in zip(batches, counted, strict=True) if n]
        shapes = [("step", batch.ids.shape) for batch in told if batch.counted]
        with execution(self.config.mode), self.compiles.watch(shapes or ["nothing"]):
            loss, norm, lr = self._learn(told) if told else NOTHING
        self.taken += 1
        return StepRecord(
            step=self.taken, loss=loss, norm=norm, lr=lr, loss_scale=scale, moved=math.isfinite(norm),
            counted=sum(counted), tokens=self.ranks.dp * sum(batch.ids.size for batch in batches),
            seconds=time.perf_counter() - began, compiled=self.compiles.total - before,
        )  # fmt: skip

    def loss(self, batch: Batch) -> tuple[float, int]:
        """The mean loss, without dropout, and how many tokens it is a mean of; nothing moves.

        NaN where no token counts. A batch may have any shape, and each is a graph to compile.
        """
        training = self.model.training
        with execution(self.config.mode), self.compiles.watch([("held out", batch.ids.shape)]):
            self.model.set_train(False)
            try:
                return float(self.held_out(*_tensors(batch)).asnumpy()), batch.counted
            finally:
                self.model.set_train(training)

    @property
    def loss_scale(self) -> float:
        """What the next step multiplies its loss by; 1 without float16."""
        return 1.0 if self.scaling is None else float(self.scaling.value.asnumpy())

    @property
    def weights(self) -> dict[str, Parameter]:
        """What is trained, by name."""
        return {weight.name: weight for weight in self.optimizer.weights}

    def state(self) -> dict[str, Parameter]:
        """All that a resume needs besides the weights, by name: `adam.*`, `loss_scale.*`, `random.*`."""
        scaling = () if self.scaling is None else self.scaling.state
        counter = () if self.counter is None else (self.counter.state,)
        return {parameter.name: parameter for parameter in (*self.optimizer.state, *scaling, *counter)}

    def restore(self, values: Mapping[str, np.ndarray], *, step: int | None = None) -> None:
        """Go on from a state.

        Args:
            values: as `state` gave them.
            step: steps taken until then; without it those in which the weights moved, which is the same unless one
                was skipped.

        Raises:
            MappingError: names, shapes or dtypes are not this training's; nothing was changed.
        """
        with execution(self.config.mode):
            put_back(self.state(), values)
        self.taken = int(values["adam.step"]) if step is None else step

    def _many(self) -> AccumulatedStep | None:
        """What adds up gradients, where there are several passes, or replicas."""
        if self.config.batch.accumulate == self.ranks.dp == 1:
            return None
        reduce = None
        if self.ranks.dp > 1:
            shapes = [weight.shape for weight in self.optimizer.weights]
            reduce = Buckets(shapes, self.ranks.dp_group, self.config.parallel.bucket)
        return AccumulatedStep(self.one, _unit(self.rows, self.config.data.tokens), reduce)

    def _learn(self, batches: Sequence[Batch]) -> tuple[float, float, float]:
        tensors = (_tensors(batch) if batch.counted else None for batch in batches)
        loss, norm, lr = self.one(*next(tensors)) if self.many is None else self.many(tensors)
        return float(loss.asnumpy()), float(norm.asnumpy()), float(lr.asnumpy())

    def _check(self, batches: Sequence[Batch]) -> None:
        if len(batches) != self.config.batch.accumulate:
            raise UsageError("a step takes as many batches as are accumulated", where="batch.accumulate",
                             got=len(batches), expected=self.config.batch.accumulate)  # fmt: skip
        for batch in batches:
            rows, length = batch.ids.shape
            if rows != self.rows or length not in self.lengths or batch.labels.shape != batch.ids.shape:
                raise UsageError("a batch is not of a shape that the configuration names", got=(rows, length),
                                 expected=f"{self.rows} rows of {' or '.join(map(str, self.lengths))} tokens",
                                 do="prepare the data with this configuration: each shape is a graph")  # fmt: skip


def _tensors(batch: Batch) -> tuple[Tensor, Tensor]:
    """Ids and labels; of one dtype, since each would be another graph."""
    return Tensor(np.asarray(batch.ids, np.int32)), Tensor(np.asarray(batch.labels, np.int32))


def _lengths(config: TrainConfig) -> tuple[int, ...]:
    return tuple(sorted({*config.data.buckets, config.data.tokens}))


def _unit(rows: int, tokens: int) -> float:
    """A power of two, by which to multiply costs no digit, near the tokens of a batch."""
    return 2.0 ** round(math.log2(rows * tokens))
