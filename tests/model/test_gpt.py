"""The whole model against the real transformers classes, in both modes, values and gradients."""

from __future__ import annotations

import dataclasses

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindport.config.schema import shapes
from mindport.errors import MappingError, UsageError
from mindport.model import GPT, NextTokenLoss
from mindport.model.kernels import override
from mindport.model.kernels.drop import threshold
from tests.families import CONTEXT, NEW
from tests.model.reference import CASES, MODES, execution, token_ids

LIMIT = 1e-5
T = CONTEXT + 7  # beyond the original context of every scaled rope


def error(pair, ids, **build) -> float:
    return np.abs(pair.ours(**build)(Tensor(ids)).asnumpy() - pair.logits(ids)).max()


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_transformers(pair, name):
    assert error(pair(name), token_ids(CONTEXT if "never" in name else T)) <= LIMIT


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama mha gelu", "dynamic"])
def test_logits_equal_transformers_in_graph_mode(pair, name):
    with execution(ms.GRAPH_MODE):
        logits = pair(name).compiled(Tensor(token_ids(T))).asnumpy()
    assert np.abs(logits - pair(name).logits(token_ids(T))).max() <= LIMIT


@pytest.mark.parametrize("tokens", [1, CONTEXT - 3])
@pytest.mark.parametrize("name", ["gpt2", "llama", "dynamic, never stretched", "phi3 longrope"])
def test_logits_equal_transformers_at_other_lengths(pair, name, tokens):
    assert error(pair(name), token_ids(tokens)) <= LIMIT


def test_ms_jit_computes_the_same(pair):
    model, ids = pair("llama").ours(), Tensor(token_ids(1))
    np.testing.assert_array_equal(ms.jit(model)(ids).asnumpy(), model(ids).asnumpy())


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "pynative") for name in ["gpt2", "llama", "llama tied mqa", *NEW]),
        ("gpt2", "graph"),
        ("llama", "graph"),
    ],
)
def test_loss_and_all_gradients_equal_transformers(pair, name, mode):
    ids = token_ids(T)
    labels = np.where(np.arange(T) % 5 == 3, -100, ids).astype(np.int32)
    loss, expected = pair(name).loss_and_gradients(ids, labels)
    with execution(MODES[mode]):
        got_loss, got = step(pair(name).ours(), ids, labels)
    assert got_loss == pytest.approx(loss, rel=1e-6)
    assert got.keys() == expected.keys() == shapes(pair(name).config).keys()
    floor = 1e-2 * max(np.abs(g).max() for g in expected.values())  # a bias of k has no gradient but rounding
    errors = {n: np.abs(got[n] - g).max() / max(np.abs(g).max(), floor) for n, g in expected.items()}
    assert max(errors.values()) <= LIMIT, max(errors, key=errors.get)


def step(model: GPT, ids: np.ndarray, labels: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
    weights = model.trainable_params()
    loss, gradients = Step(NextTokenLoss(model), weights)(Tensor(ids), Tensor(labels))
    return loss.asnumpy().item(), {p.name: g.asnumpy() for p, g in zip(weights, gradients, strict=True)}


class Step(ms.nn.Cell):
    """Loss and gradients as one cell, which Graph mode compiles as one graph."""

    def __init__(self, loss, weights):
        super().__init__(auto_prefix=False)
        self.loss, self.both = loss, ms.value_and_grad(loss, None, weights=weights)

    def construct(self, ids, labels):
        return self.both(ids, labels)


FAULTS = {
    "theta": ("llama", lambda c: {"rope": dataclasses.replace(c.rope, rope_theta=1010.0)}),
    "no rope scaling": ("llama3", lambda c: {"rope": dataclasses.replace(c.rope, rope_type="default")}),
    "yarn temperature": ("yarn", lambda c: {"rope": dataclasses.replace(c.rope, attention_factor=1.0)}),
    "gelu": ("gpt2", lambda c: {"hidden_act": "gelu"}),
    "gelu tanh": ("gpt2 erf untied", lambda c: {"hidden_act": "gelu_tanh"}),
    "no score scale": ("gpt2", lambda c: {"scale_attn_weights": False}),
    "no layer scale": ("gpt2 relu by layer", lambda c: {"scale_attn_by_inverse_layer_idx": False}),
    "activation": ("llama", lambda c: {"hidden_act": "gelu"}),
    "no window": ("mistral", lambda c: {"window": None}),
    "a window one key wider": ("mistral", lambda c: {"window": (6, 6, 6)}),
    "windows in the first layers, not the last": ("qwen2", lambda c: {"window": c.window[::-1]}),
    "whole heads rotated": ("gpt_neox", lambda c: {"rotary_dim": None}),
    "one pair too few rotated": ("phi3", lambda c: {"rotary_dim": c.rotary_dim - 2}),
    "longrope's other factors": (
        "phi3 longrope",
        lambda c: {"rope": dataclasses.replace(c.rope, long_factor=c.rope.short_factor)},
    ),
    "one after the other": ("gpt_neox", lambda c: {"parallel_residual": False}),
    "side by side": ("gpt_neox sequential linear", lambda c: {"parallel_residual": True}),
    "norms not around zero": ("gemma", lambda c: {"norm_offset": 0}),
    "no embedding scale": ("gemma", lambda c: {"embedding_scale": 1.0}),
    "activation of Gemma": ("gemma", lambda c: {"hidden_act": "gelu"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_setting_is_seen(pair, fault):
    name, change = FAULTS[fault]
    wrong = dataclasses.replace(pair(name).config, **change(pair(name).config))
    assert error(pair(name), token_ids(T), config=wrong) > 10 * LIMIT


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_wrong_epsilon_is_seen_where_activations_are_small(pair, name):
    it = pair(name)
    small = {n: v * 0.01 if n.startswith(("embed", "position")) else v for n, v in it.values.items()}
    ids = Tensor(token_ids(T))
    right = it.ours(values=small)(ids).asnumpy()
    wrong = it.ours(config=dataclasses.replace(it.config, norm_eps=1e-7), values=small)(ids).asnumpy()
    assert np.abs(right - wrong).max() > 10 * LIMIT


def test_swapped_key_heads_are_seen(pair):
    it = pair("llama")
    d = it.config.head_dim
    values = {n: np.concatenate([v[d:], v[:d]]) if ".attn.k." in n else v for n, v in it.values.items()}
    assert error(it, token_ids(T), values=values) > 10 * LIMIT


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_later_tokens_do_not_reach_earlier_logits(pair, name, mode):
    ids = token_ids(T).copy()
    with execution(MODES[mode]):
        model = pair(name).compiled
        before = model(Tensor(ids)).asnumpy()
        ids[:, 9:] = 0  # as padding does
        after = model(Tensor(ids)).asnumpy()
    np.testing.assert_array_equal(before[:, :9], after[:, :9])
    assert np.abs(before[:, 9:] - after[:, 9:]).max() > 0.1


def test_rows_of_a_batch_do_not_mix_even_when_one_is_all_padding(pair):
    model, ids = pair("llama").ours(), token_ids(T).copy()
    ids[1] = 0
    both, alone = model(Tensor(ids)).asnumpy(), model(Tensor(ids[:1])).asnumpy()
    np.testing.assert_allclose(both[:1], alone, atol=1e-6)
    assert np.isfinite(both).all()


def test_a_cache_computes_the_same_from_the_joints(pair):
    """Token by token over a fixed-length cache, the way the joints are meant to be used."""
    it = pair("llama")
    model, ids, config = it.ours(), token_ids(7), it.config
    shape = (2, 10, config.num_key_value_heads, config.head_dim)
    cache = [[np.full(shape, 9.0, np.float32) for _ in "kv"] for _ in range(config.num_hidden_layers)]
    for at in range(7):
        x, cos, sin = model.inputs(Tensor(ids[:, at : at + 1]), Tensor([[at]], ms.int32), 7)
        for block, (keys, values) in zip(model.blocks, cache, strict=True):
            q, k, v = block.attn.heads(block.norm1(x), cos, sin)
            keys[:, at : at + 1], values[:, at : at + 1] = k.asnumpy(), v.asnumpy()
            seen = block.attn.attend(q, Tensor(keys), Tensor(values), Tensor(at, ms.int32))
            x = x + block.attn.o(block.attn.merge(seen))
            x = x + block.mlp(block.norm2(x))
        last = model.outputs(x).asnumpy()[:, 0]
        np.testing.assert_allclose(last, it.logits(ids[:, : at + 1])[:, -1], atol=LIMIT)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_parameters_are_the_schema(pair, name):
    model = pair(name).ours()
    assert {p.name: p.shape for p in model.get_parameters()} == shapes(pair(name).config)
    assert (model.head.weight is model.embed.weight) == pair(name).config.tie_word_embeddings


def test_a_forward_hook_sees_every_cell(pair):
    model, seen = pair("llama").ours(), {}
    for name, cell in model.cells_and_names():
        cell.register_forward_hook(lambda cell, inputs, output, name=name: seen.update({name: (inputs, output)}))
    logits = model(Tensor(token_ids(T)))
    silent = {name for name, _ in model.cells_and_names()} - seen.keys()
    assert {name.split(".")[-1] for name in silent} - {"reference"} == {"blocks"}  # a list; attention's other path
    assert seen["blocks.1.attn.o"][0][0].shape == (2, T, 48)  # the attention's context
    assert seen["blocks.1.mlp.down"][0][0].shape == (2, T, 28)  # act(gate) · up
    np.testing.assert_array_equal(seen["head"][1].asnumpy(), logits.asnumpy())


@pytest.mark.parametrize("mode", MODES)
def test_a_sequence_beyond_learned_positions_stops(pair, mode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a failed compilation leaves a dump where it stands
    with execution(MODES[mode]), pytest.raises(UsageError, match="longer than the model's positions"):
        pair("gpt2").ours()(Tensor(token_ids(41)))


@pytest.mark.parametrize("name", ["llama", "gemma", "gpt_neox", "qwen3 bias llama3"])
def test_half_precision_follows(pair, name):
    logits = pair(name).ours(dtype="float16")(Tensor(token_ids(T))).asnumpy()
    assert logits.dtype == np.float32
    assert LIMIT < np.abs(logits - pair(name).logits(token_ids(T))).max() < 0.05


def in_half(pair, level, path):
    """A model at a level of mixed precision, its products computed by a path."""
    with override("linear", path), override("attention", path):
        return ms.amp.auto_mixed_precision(pair("llama").ours(), level, dtype=ms.float16)


@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_mixed_precision_levels_stay_near(pair, level):
    model = in_half(pair, level, "reference")
    logits = model(Tensor(token_ids(T))).asnumpy().astype(np.float32)
    assert LIMIT < np.abs(logits - pair("llama").logits(token_ids(T))).max() < 0.05


def test_mixed_precision_o1_compiles_in_graph_mode(pair):
    """It rewrites the source of every cell, so names of the module are gone."""
    model = in_half(pair, "O1", "reference")
    with execution(ms.GRAPH_MODE):
        logits = model(Tensor(token_ids(T))).asnumpy().astype(np.float32)
    assert LIMIT < np.abs(logits - pair("llama").logits(token_ids(T))).max() < 0.05


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_the_c_kernels_stay_in_float32_under_mixed_precision(pair, level, mode):
    """O2 and O3 round the weights, O1 nothing that they touch."""
    model = in_half(pair, level, "cpu")
    with execution(mode):
        logits = model(Tensor(token_ids(T))).asnumpy().astype(np.float32)
    assert np.abs(logits - pair("llama").logits(token_ids(T))).max() < (LIMIT if level == "O1" else 0.05)


def test_dropout_acts_in_training_only(pair):
    it = pair("gpt2")
    model = it.ours(config=dataclasses.replace(it.config, embd_pdrop=0.1, attn_pdrop=0.2, resid_pdrop=0.3))
    drops = {name: cell.p for name, cell in model.cells_and_names() if name.split(".")[-1] == "dropout"}
    assert drops["dropout"] == 0.1
    assert model.blocks[2].attn.attend.drop.drop[1] == threshold(0.2)
    assert drops["blocks.2.attn.dropout"] == drops["blocks.2.mlp.dropout"] == 0.3
    ids = Tensor(token_ids(T))
    np.testing.assert_allclose(model(ids).asnumpy(), it.logits(token_ids(T)), atol=LIMIT)
    model.set_train()
    before = model(ids).asnumpy()
    np.testing.assert_array_equal(model(ids).asnumpy(), before)
    model.counter()
    assert np.abs(model(ids).asnumpy() - before).max() > 0.1


def test_a_weight_of_another_shape_stops(pair):
    values = {**pair("llama").values, "blocks.1.mlp.up.weight": np.zeros((28, 21), np.float32)}
    with pytest.raises(MappingError, match=r"blocks\.1\.mlp\.up\.weight"):
        pair("llama").ours(values=values)


def test_fresh_weights_have_the_configured_spread(pair):
    config = dataclasses.replace(pair("llama").config, initializer_range=0.05, vocab_size=2000)
    model = GPT(config)
    assert model.embed.weight.asnumpy().std() == pytest.approx(0.05, rel=0.05)
    assert set(model.norm.weight.asnumpy()) == {1.0}
    assert set(model.blocks[0].attn.q.bias.asnumpy()) == {0.0}
