"""Several batches against one that holds the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mindspore import Tensor, nn

from mindport.errors import UsageError
from mindport.model import NextTokenLoss
from mindport.training import AccumulatedStep, AdamW, Constant, LossScale, TrainStep
from mindport.training.config import PrecisionConfig
from mindport.training.data.batch import Batch
from tests.model.reference import MODES, execution
from tests.training import small

SHARES = (0.0, 0.9, 1.0, 0.3)  # of labels that do not count
LIMIT = 1e-6


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return small.pair("gpt2", tmp_path_factory.mktemp("gpt2"))


def batches(step: int) -> list[Batch]:
    return [small.batch(10 * step + i, share) for i, share in enumerate(SHARES)]


def accumulated(pair, **changes):
    return small.stepper(pair, accumulate=len(SHARES), warmup=0, **changes)


def whole(pair):
    return small.stepper(pair, rows=small.ROWS * len(SHARES), warmup=0)


def test_the_batches_are_as_different_as_they_should_be():
    counted = [batch.counted for batch in batches(0)]
    assert counted[2] == 0
    assert max(counted) > 5 * counted[1] > 0


@pytest.mark.parametrize("mode", MODES)
def test_equals_one_large_batch(pair, mode):
    """Loss, norm and rate of each step, both means, and the weights."""
    one, other = accumulated(pair, mode=mode), whole(pair)
    for step in range(3):
        got, wanted = one.step(batches(step)), other.step([small.together(batches(step))])
        assert (got.counted, got.tokens, got.lr, got.step) == (wanted.counted, wanted.tokens, wanted.lr, wanted.step)
        assert (got.loss, got.norm) == pytest.approx((wanted.loss, wanted.norm), rel=LIMIT)
        assert small.furthest(small.values(one.state()), small.values(other.state())) <= LIMIT
    assert one.compiles.total == (2 if mode == "graph" else 0)
    assert small.furthest(small.learned(one), small.learned(other)) <= LIMIT


def test_the_cell_itself_takes_no_other_shape_in_graph_mode(pair):
    """`set_inputs` compiles nothing and refuses before anything is compiled."""
    one, other = accumulated(pair, mode="graph"), small.batch(0, tokens=small.TOKENS - 1)
    with execution(MODES["graph"]), pytest.raises(ValueError, match="set_inputs"):
        one.many.add(Tensor(other.ids), Tensor(other.labels))
    assert one.compiles.total == 0


def test_the_mean_of_means_is_another_training(pair):
    """What the same batches come to when each of them weighs the same."""
    model = pair.ours()
    loss = NextTokenLoss(model)
    step = TrainStep(model, loss, AdamW(model.trainable_params()), Constant(small.LR))
    given = [batch for batch in batches(0) if batch.counted]
    found = [step.loss_and_gradients(Tensor(batch.ids), Tensor(batch.labels)) for batch in given]
    naive = [np.mean([gradients[i].asnumpy() for _, gradients in found], 0) for i in range(len(step.optimizer.weights))]
    norm = np.sqrt(sum(float((gradient**2).sum()) for gradient in naive))
    wanted = whole(pair).step([small.together(batches(0))])
    assert abs(norm - wanted.norm) > 0.1 * wanted.norm
    assert abs(np.mean([loss.asnumpy() for loss, _ in found]) - wanted.loss) > 1000 * LIMIT * wanted.loss


def test_a_loss_scale_changes_no_number(pair):
    config = PrecisionConfig("O1", "float16", 2.0**10, 2)  # the model itself stays in float32
    plain, scaled = accumulated(pair), accumulated(pair, precision=config)
    for step in range(3):
        one, other = plain.step(batches(step)), scaled.step(batches(step))
        assert (one.loss, one.norm) == (other.loss, other.norm)
    assert small.furthest(small.values(plain.weights), small.values(scaled.weights)) == 0
    assert scaled.loss_scale == 2.0**11


def test_scaled_gradients_are_those_of_a_mean(pair):
    """Not of a sum over thousands of tokens, which float16 would not hold."""
    model = pair.ours()
    scaling = LossScale(2.0**10)
    step = TrainStep(model, NextTokenLoss(model), AdamW(model.trainable_params()), Constant(0.0), scaling=scaling)
    batch, unit = small.batch(0, 0.0), float(small.ROWS * (small.TOKENS - 1))
    accumulating = AccumulatedStep(step, unit)
    tensors = Tensor(batch.ids), Tensor(batch.labels)
    accumulating.add(*tensors)
    _, gradients = step.loss_and_gradients(*tensors, 1.0)
    pairs = zip(accumulating.sums.gradients, gradients, strict=True)
    assert all(np.array_equal(total.asnumpy(), gradient.asnumpy()) for total, gradient in pairs)
    assert accumulating.sums.counted.asnumpy() == unit


def test_an_interrupted_step_leaves_nothing(pair):
    one, other = accumulated(pair), accumulated(pair)

    def interrupted():
        yield Tensor(batches(5)[0].ids), Tensor(batches(5)[0].labels)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one.many(interrupted())
    assert one.many.sums.counted.asnumpy() > 0
    assert one.step(batches(0)).loss == other.step(batches(0)).loss
    assert small.furthest(small.values(one.weights), small.values(other.weights)) == 0


def test_a_step_without_a_batch_stops(pair):
    with execution(MODES["pynative"]), pytest.raises(UsageError, match="a batch at least"):
        accumulated(pair).many([])


class Times(nn.Cell):
    """As replicas would add up what each of them has alike."""

    def __init__(self, gradients: float, scalars: float) -> None:
        super().__init__()
        self.gradients, self.scalars = gradients, scalars

    def construct(self, gradients, scalars):
        return (tuple([self.gradients * gradient for gradient in gradients]),
                tuple([self.scalars * scalar for scalar in scalars]))  # fmt: skip


def replicated(pair, gradients: float, scalars: float):
    stepper = accumulated(pair, optimizer=replace(small.CONFIG.optimizer, max_norm=None))
    stepper.many = AccumulatedStep(stepper.one, 16.0, Times(gradients, scalars))
    return stepper


def test_replicas_with_the_same_rows_are_as_good_as_one(pair):
    """Two of them double gradients, loss and tokens; the norm is measured of the mean over the tokens of both."""
    one, two, wrong = replicated(pair, 1.0, 1.0), replicated(pair, 2.0, 2.0), replicated(pair, 2.0, 1.0)
    records = [stepper.step(batches(0)) for stepper in (one, two, wrong)]
    assert records[0].loss == records[1].loss and records[0].norm == records[1].norm
    assert small.furthest(small.values(one.state()), small.values(two.state())) == 0
    assert records[2].norm == 2 * records[0].norm


def test_a_replica_without_a_token_that_counts_takes_part_with_zeros(pair):
    """Its own sums are zero, and what the others have is not spoiled: no mean of nothing is in it."""

    class Others(nn.Cell):
        def construct(self, gradients, scalars):
            return tuple([gradient + 0.5 for gradient in gradients]), (scalars[0] + 3.0, scalars[1] + 8.0)

    stepper = accumulated(pair)
    stepper.many = AccumulatedStep(stepper.one, 16.0, Others())
    with execution(MODES["pynative"]):
        loss, norm, _ = stepper.many([None])
    assert float(loss.asnumpy()) == 3.0 / (8 / 16) and np.isfinite(norm.asnumpy())
