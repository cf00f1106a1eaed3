"""A model that drops: the same masks in both modes, computed again or not, and after a restart; none in evaluation."""

from __future__ import annotations

import functools

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from mindport.config.schema import shapes
from mindport.errors import UsageError
from mindport.model import GPT, NextTokenLoss
from mindport.model.dropout import Counter, with_dropout
from mindport.model.kernels import override
from tests.model.reference import MODES, execution, token_ids

T, P = 11, 0.2


class Passes(nn.Cell):
    """A pass of a training, without its optimizer: loss and gradients."""

    def __init__(self, model):
        super().__init__(auto_prefix=False)
        self.counter, self.loss = model.counter, NextTokenLoss(model)
        self.both = ms.value_and_grad(self.loss, None, weights=model.trainable_params())
        self.set_train()

    def construct(self, ids):
        self.counter()
        return self.both(ids, ids)


def dropping(pair, again=False, seed=3):
    it = pair("llama")
    model = GPT(with_dropout(it.config, P).with_layers(1), lambda name, shape: it.values[name], seed=seed)
    if again:
        model.recompute_blocks()
    return model


def run(model, count=2, mode="pynative", start=None):
    """Loss and gradients of each of `count` passes."""
    with execution(MODES[mode]):
        whole, ids = Passes(model), Tensor(token_ids(T))
        if start is not None:
            whole(ids)  # what was compiled, or kept, must take the new state too
            ops.assign(model.counter.state, Tensor(start))
        results = [whole(ids) for _ in range(count)]
        return [[loss.asnumpy(), *(x.asnumpy() for x in gradients)] for loss, gradients in results]


def assert_equal(one, other):
    for mine, theirs in zip(one, other, strict=True):
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.fixture(scope="module")
def kept(pair):
    """`kept(mode)`: three passes with the activations kept, computed once."""
    return functools.cache(lambda mode: run(dropping(pair), 3, mode))


@pytest.mark.parametrize("mode", MODES)
def test_blocks_computed_again_give_every_bit(pair, kept, mode):
    assert_equal(run(dropping(pair, again=True), 3, mode), kept(mode))


@pytest.mark.parametrize("mode", MODES)
def test_a_restored_state_gives_every_bit(pair, kept, mode):
    """In another model, made from another seed."""
    assert_equal(run(dropping(pair, seed=8), 1, mode, start=np.array([3, 2], np.int32)), kept(mode)[2:])


def test_the_modes_drop_the_same(kept):
    assert [loss for loss, *_ in kept("graph")] == [loss for loss, *_ in kept("pynative")]


def test_plain_operators_drop_the_same(pair, kept):
    with override("attention", "reference"), override("dropout", "reference"):
        plain = dropping(pair)
    for mine, theirs in zip(run(plain), kept("pynative"), strict=False):
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-6)


def test_each_pass_and_each_seed_drops_others(pair, kept):
    losses = {loss.item() for loss, *_ in (*kept("pynative"), *run(dropping(pair, seed=4)))}
    assert len(losses) == 5


def test_one_mask_in_the_place_of_another_is_seen(pair, kept):
    """The negative control: two dropouts that draw the same numbers give another loss."""
    model = dropping(pair)
    model.blocks[0].mlp.dropout = model.blocks[0].attn.dropout
    assert run(model, 1)[0][0] != kept("pynative")[0][0]


def test_evaluation_drops_nothing(pair):
    model, ids = dropping(pair), Tensor(token_ids(T))
    still = model(ids).asnumpy()
    model.counter()
    np.testing.assert_array_equal(model(ids).asnumpy(), still)
    assert np.abs(model.set_train()(ids).asnumpy() - still).max() > 0.1


def test_the_state_is_no_weight(pair):
    model = dropping(pair)
    for cell in (model, Passes(model)):
        assert {weight.name for weight in cell.get_parameters()} == shapes(model.config).keys()
    assert model.counter.state.name == "random.state"
    assert not model.counter.state.requires_grad


def test_a_model_that_drops_nothing_has_no_counter(pair):
    assert GPT(with_dropout(pair("gpt2").config, 0.0)).counter is None


def test_with_dropout_is_for_all_three(pair):
    config = with_dropout(pair("gpt2").config, P)
    assert (config.embd_pdrop, config.attn_pdrop, config.resid_pdrop) == (P, P, P)
    assert with_dropout(config, None) is config
    with pytest.raises(UsageError, match="no probability"):
        with_dropout(config, 1.0)


@pytest.mark.parametrize(("seed", "state"), [(5, 5), (-1, -1), (2**32 + 9, 9), (3_000_000_000, -1_294_967_296)])
def test_any_seed_is_32_bits(seed, state):
    assert Counter(seed).state.asnumpy().tolist() == [state, 0]
