"""A training from its configuration: its records, its state, its compilations, and what it refuses."""

from __future__ import annotations

import math
import warnings

import mindspore as ms
import numpy as np
import pytest

from mindport.errors import MappingError, UsageError
from mindport.model import NextTokenLoss, Precision
from mindport.training.compile_counter import Recompiled
from mindport.training.config import PrecisionConfig
from mindport.training.data.batch import IGNORED, Batch
from mindport.training.state import put_back
from tests.training import small

LIMIT, BUCKET = 1e-5, 7
FLOAT16 = PrecisionConfig("O1", "float16", 2.0**10, 2)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return {family: small.pair(family, tmp_path_factory.mktemp(family)) for family in small.SETTINGS}


@pytest.fixture(scope="module")
def graph(pairs):
    """Compiled once for these tests: dropout, two lengths of rows; it stands after a step of each."""
    stepper = small.stepper(pairs["gpt2"], mode="graph", drop=True, buckets=(BUCKET,))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Recompiled)
        stepper.records = [stepper.step([small.batch(0)]), stepper.step([small.batch(1, tokens=BUCKET)])]
    return stepper


@pytest.mark.parametrize("family", small.SETTINGS)
def test_every_record_equals_torch(pairs, family):
    """Loss, norm, rate, and the weights after all steps; to the last one, where the rate is nearly 0."""
    stepper, reference = small.stepper(pairs[family]), small.Torch(pairs[family])
    for i in range(small.STEPS):
        record = stepper.step([small.batch(i)])
        assert (record.loss, record.norm, record.lr) == pytest.approx(reference.step(small.batch(i)), rel=LIMIT)
        assert (record.step, record.moved, record.loss_scale, record.compiled) == (i + 1, True, 1.0, 0)
        assert (record.counted, record.tokens) == (small.batch(i).counted, small.ROWS * small.TOKENS)
    assert small.furthest(small.learned(stepper), reference.weights) <= LIMIT


def run(stepper, steps: range, change=lambda batch: batch) -> list[tuple[float, float]]:
    records = [stepper.step([change(small.batch(i))]) for i in steps]
    return [(record.loss, record.norm) for record in records]


def mixed(pairs):
    return small.stepper(pairs["gpt2"], Precision("O1", "float16"), drop=True, precision=FLOAT16)


class Course:
    """Three steps, the state after them, an evaluation, and three steps more: with dropout and a loss scale."""

    def __init__(self, pairs) -> None:
        stepper = mixed(pairs)
        self.first = run(stepper, range(3))
        self.weights, self.state = small.values(stepper.weights), small.values(stepper.state())
        stepper.loss(small.batch(9))
        self.rest, self.loss_scale = run(stepper, range(3, 6)), stepper.loss_scale
        self.end = small.values(stepper.weights) | small.values(stepper.state())


@pytest.fixture(scope="module")
def course(pairs):
    return Course(pairs)


def test_two_fresh_runs_have_the_same_bits(pairs, course):
    """Straight on, and with an evaluation in between."""
    other = mixed(pairs)
    assert run(other, range(3)) + run(other, range(3, 6)) == course.first + course.rest
    assert small.furthest(small.values(other.weights) | small.values(other.state()), course.end) == 0


def resumed(pairs, weights, state):
    stepper = mixed(pairs)
    put_back(stepper.weights, weights)
    stepper.restore(state, step=3)
    return stepper


def test_a_fresh_one_goes_on_from_a_state_to_the_same_bits(pairs, course):
    other = resumed(pairs, course.weights, course.state)
    assert run(other, range(3, 6)) == course.rest
    assert small.furthest(small.values(other.weights) | small.values(other.state()), course.end) == 0
    assert (other.taken, other.loss_scale) == (6, course.loss_scale)


@pytest.mark.parametrize("forgotten", ["adam.m.embed.weight", "adam.step", "random.state", "loss_scale.good_steps"])
def test_a_part_of_the_state_that_is_not_put_back_is_seen(pairs, course, forgotten):
    fresh = np.zeros_like(course.state[forgotten])
    other = resumed(pairs, course.weights, course.state | {forgotten: fresh})
    assert (run(other, range(3, 5)), other.loss_scale) != (course.rest[:2], course.loss_scale)


def test_a_graph_goes_back_to_the_same_bits(graph):
    """The one that has run on takes its own earlier state, in the memory that its graph knows."""
    weights, state, taken = small.values(graph.weights), small.values(graph.state()), graph.taken
    wanted = run(graph, range(3, 6))
    put_back(graph.weights, weights)
    graph.restore(state, step=taken)
    assert run(graph, range(3, 6)) == wanted


def test_names_of_the_state(pairs, course):
    moments = [f"adam.{mean}.{name}" for mean in "mv" for name in course.weights]
    names = ["adam.step", *moments, "loss_scale.value", "loss_scale.good_steps", "random.state"]
    assert list(course.state) == names
    assert list(small.stepper(pairs["gpt2"]).state()) == names[:-3]


BAD_STATES = {
    "lacks values": lambda state: {k: v for k, v in state.items() if k != "adam.v.norm.bias"},
    "that nothing here takes": lambda state: state | {"adam.m.blocks.7.mlp.up.weight": np.zeros(3, np.float32)},
    "not of the parameter's kind.*got: *float32 ": lambda state: state | {"adam.m.norm.bias": np.zeros(3, np.float32)},
    "not of the parameter's kind.*got: *float64": lambda state: state | {"adam.step": np.float64(3)},
}


@pytest.mark.parametrize("message", BAD_STATES)
def test_a_state_of_another_training_stops_and_changes_nothing(pairs, message):
    stepper = small.stepper(pairs["gpt2"])
    run(stepper, range(2))
    before = small.values(stepper.state())
    with pytest.raises(MappingError, match=f"(?s){message}"):
        stepper.restore(BAD_STATES[message]({name: np.zeros_like(value) for name, value in before.items()}))
    assert small.furthest(small.values(stepper.state()), before) == 0
    assert stepper.taken == 2


def test_each_length_is_compiled_once(graph):
    assert [record.compiled for record in graph.records] == [1, 1]
    assert [graph.step([small.batch(5, tokens=n)]).compiled for n in (small.TOKENS, BUCKET)] == [0, 0]


def test_an_evaluation_is_one_more_graph_without_dropout(pairs, graph):
    held_out = small.batch(20)
    before, weights = graph.compiles.total, small.values(graph.weights)
    everything = weights | small.values(graph.state())
    mean, counted = graph.loss(held_out)
    assert (mean, counted) == (graph.loss(held_out)[0], held_out.counted)
    assert graph.compiles.total == before + 1
    assert small.furthest(small.values(graph.weights) | small.values(graph.state()), everything) == 0
    plain = NextTokenLoss(pairs["gpt2"].ours(values=weights))
    assert mean == pytest.approx(plain(ms.Tensor(held_out.ids), ms.Tensor(held_out.labels)).asnumpy().item())
    assert graph.model.training
    assert graph.step([small.batch(21)]).compiled == 0


def test_dropout_is_on_after_an_evaluation(pairs):
    one, other = small.stepper(pairs["gpt2"], drop=True), small.stepper(pairs["gpt2"])
    one.model.set_train(False)  # as whoever samples may leave it
    assert one.step([small.batch(0)]).loss != other.step([small.batch(0)]).loss


def test_a_graph_that_is_compiled_again_is_seen(graph):
    """A switch between training and evaluation is the usual reason."""
    run(graph, range(1))
    before = graph.compiles.unexpected
    graph.one.set_train(False)
    with pytest.warns(Recompiled, match=r"compiled again for \('step', \(2, 12\)\)"):
        record = graph.step([small.batch(1)])
    assert (record.compiled, graph.compiles.unexpected - before) == (1, 1)
    graph.one.set_train()


def test_a_step_in_which_nothing_counts_moves_nothing(pairs):
    stepper = small.stepper(pairs["gpt2"])
    run(stepper, range(1))
    before = small.values(stepper.state()) | small.values(stepper.weights)
    empty = Batch(small.batch(0).ids, np.full_like(small.batch(0).labels, IGNORED))
    record = stepper.step([empty])
    assert (record.step, record.moved, record.counted, record.tokens) == (2, False, 0, empty.ids.size)
    assert all(map(math.isnan, (record.loss, record.norm, record.lr, stepper.loss(empty)[0])))
    assert small.furthest(small.values(stepper.state()) | small.values(stepper.weights), before) == 0


def test_ids_of_another_dtype_are_the_same_batch(pairs):
    """They would be another graph."""
    one, other = small.stepper(pairs["gpt2"]), small.stepper(pairs["gpt2"])
    wide = run(other, range(2), lambda b: Batch(b.ids.astype(np.int64), b.labels.astype(np.int64)))
    assert run(one, range(2)) == wide


@pytest.mark.parametrize("shape", [{"rows": 3}, {"tokens": 11}])
def test_a_batch_of_another_shape_stops(pairs, shape):
    with pytest.raises(UsageError, match=r"2 rows of 7 or 12 tokens"):
        small.stepper(pairs["gpt2"], buckets=(BUCKET,)).step([small.batch(0, **shape)])


@pytest.mark.parametrize("count", [0, 2])
def test_another_number_of_batches_stops(pairs, count):
    with pytest.raises(UsageError, match="as many batches"):
        small.stepper(pairs["gpt2"]).step([small.batch(0)] * count)


def test_the_modes_inside_and_outside_are_their_own(pairs):
    """A configuration's mode holds for its steps, whatever the process is in."""
    stepper = small.stepper(pairs["gpt2"])
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        record = stepper.step([small.batch(0)])
        assert (record.compiled, ms.get_context("mode")) == (0, ms.GRAPH_MODE)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
