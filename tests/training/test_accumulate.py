"""Several batches against one that holds the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor

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
