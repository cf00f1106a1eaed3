"""Mixed precision: near float32 and near torch's autocast, gradients in float32, and each float32 island needed."""

from __future__ import annotations

import functools

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Tensor, nn

from mindport.errors import BackendError, UsageError
from mindport.model import GPT, NextTokenLoss, Precision, kernels, precision_table
from mindport.model.gpt import Rotary, Wide
from mindport.model.kernels import override
from tests.model.reference import MODES, execution, token_ids

T, LIMIT = 11, 5e-3
LOWER = ("O1", "O2")


class Both(nn.Cell):
    """The loss, times a scale, and the gradients of that."""

    def __init__(self, model, scale=1.0):
        super().__init__(auto_prefix=False)
        self.loss, self.scale = NextTokenLoss(model), Tensor(scale, ms.float32)
        self.both = ms.value_and_grad(self.scaled, None, weights=model.trainable_params())

    def scaled(self, ids):
        return self.loss(ids, ids) * self.scale

    def construct(self, ids):
        return self.both(ids)


def built(pair, name, level="O0", layers=3, **changes):
    it = pair(name)
    return GPT(
        it.config.with_layers(layers), lambda name, shape: it.values[name], precision=Precision(level), **changes
    )


def trained(model, mode="pynative", scale=1.0):
    """Loss, and gradients by name."""
    with execution(MODES[mode]):
        loss, gradients = Both(model, scale)(Tensor(token_ids(T)))
        arrays = {w.name: g.asnumpy() for w, g in zip(model.trainable_params(), gradients, strict=True)}
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    return loss.asnumpy().item(), arrays


@pytest.fixture(scope="module")
def exact(pair):
    return functools.cache(lambda name: trained(built(pair, name)))


def apart(got, expected) -> float:
    """The largest distance of a loss, relative, or of a gradient, relative to the largest of all of them."""
    largest = max(np.abs(g).max() for g in expected[1].values())
    distances = [np.abs(got[1][name] - g).max() / largest for name, g in expected[1].items()]
    return max(abs(got[0] / expected[0] - 1), *distances)


@pytest.mark.parametrize(("name", "level"), [("gpt2", "O2"), ("llama", "O1"), ("llama", "O2"), ("gemma", "O2")])
def test_loss_and_gradients_follow_float32(pair, exact, name, level):
    assert 1e-6 < apart(trained(built(pair, name, level)), exact(name)) <= LIMIT


def test_graph_mode_computes_the_same(pair):
    graph, pynative = (trained(built(pair, "llama", "O2", layers=1), mode) for mode in ("graph", "pynative"))
    assert apart(graph, pynative) <= LIMIT


@pytest.mark.parametrize(("name", "level"), [("gpt2", "O1"), ("llama", "O1"), ("llama", "O2")])
def test_loss_and_gradients_follow_autocast(pair, name, level):
    with torch.autocast("cpu", torch.float16):
        expected = pair(name).loss_and_gradients(token_ids(T), token_ids(T))
    assert apart(trained(built(pair, name, level)), expected) <= LIMIT


def test_a_fault_is_beyond_the_limit(pair, exact):
    model = built(pair, "llama", "O1")
    model.blocks[0].mlp.act = kernels.gated("gelu")
    assert apart(trained(model), exact("llama")) > LIMIT


def test_o0_is_float32(pair, exact):
    assert apart(trained(built(pair, "llama", "O0")), exact("llama")) == 0


TOLD = {"linear": "linear maps", "rms_norm": "norms", "rotary": "rotation", "swiglu": "activations",
        "attention": "scores and weighted sums"}  # fmt: skip


def seen(model) -> dict[str, set[str]]:
    """The dtypes that the kernels of each kind take."""
    dtypes = {what: set() for what in TOLD.values()}
    for _, cell in model.cells_and_names():
        if what := TOLD.get(type(cell).__module__.split(".")[-1]):
            cell.register_forward_hook(lambda _, given, out, what=what: dtypes[what].add(str(given[0].dtype).lower()))
    model(Tensor(token_ids(T)))
    return dtypes


@pytest.mark.parametrize("level", ["O0", *LOWER])
def test_the_table_tells_what_the_kernels_see(pair, level):
    model = built(pair, "llama", level, layers=1)
    told = {row[0]: row[3] for row in precision_table(model).rows}
    assert seen(model) == {what: {told[what]} for what in TOLD.values()}
    half = {what for what, dtype in told.items() if dtype == "float16"}
    products = {"linear maps", "scores and weighted sums"}
    assert half == {"O0": set(), "O1": products, "O2": {*products, "residual sums"}}[level]


def test_the_table_counts_cells_and_their_parameters(pair):
    rows = {row[0]: row for row in precision_table(built(pair, "llama", "O2")).rows}
    assert rows["linear maps"][1:3] == (3 * 7 + 1, "float32")
    assert rows["residual sums"][1:3] == (3, "none")
    assert rows["norms"][4] == "float16"


# The islands: what each is needed for, and what becomes of it in half.


def half(*values):
    return Tensor(np.array([values], np.float16))


class Slope(nn.Cell):
    def __init__(self, cell):
        super().__init__()
        self.slope = ms.grad(cell)

    def construct(self, x):
        return self.slope(x)


def narrowed(kernel):
    """The kernel with half in the place of float32."""
    kernel.float32 = ms.float16
    return kernel


def test_a_norm_of_300_needs_its_island():
    weight = Tensor(np.ones(4, np.float32))
    got = Wide(kernels.rms_norm(eps=1e-5), "float16")(half(300, -300, 300, 300), weight)
    np.testing.assert_allclose(got.asnumpy(), [[1, -1, 1, 1]], rtol=1e-3)
    with override("rms_norm", "reference"):
        wrong = narrowed(kernels.rms_norm(eps=1e-5, dtype="float16"))(
            half(300, -300, 300, 300), weight.astype(ms.float16)
        )
    np.testing.assert_array_equal(wrong.asnumpy(), 0)  # divided by the root of infinity


def test_a_slope_of_an_activation_at_300_needs_its_island():
    assert Slope(Wide(kernels.activation("gelu_tanh"), "float16"))(half(300, -300)).asnumpy().tolist() == [[1, 0]]
    with override("gelu", "reference"):
        wrong = kernels.activation("gelu_tanh", "float16")
    assert np.isnan(Slope(wrong)(half(300, -300)).asnumpy()).all()


def test_positions_beyond_2048_need_their_island(pair):
    rotary, positions = Rotary(pair("llama").config), Tensor([[2048, 2049]], ms.int32)
    (one, other), _ = (x.asnumpy()[0] for x in rotary(positions, 4096))
    assert not np.array_equal(one, other)
    (one, other), _ = (x.asnumpy()[0] for x in narrowed(rotary)(positions, 4096))
    np.testing.assert_array_equal(one, other)


def attention(upcast):
    return kernels.attention(heads=1, kv_heads=1, head_dim=8, scale=1.0, dropout=0.0, dtype="float16", upcast=upcast)


HUNDRED = Tensor(np.full((1, 4, 1, 8), 100, np.float16))


def test_a_softmax_of_80_000_needs_its_island():
    kernel = attention(upcast=True)
    np.testing.assert_array_equal(kernel(HUNDRED, HUNDRED, HUNDRED).asnumpy(), 100)
    right = kernel.softmax
    kernel.softmax = lambda scores: right(scores.astype(ms.float16)).astype(ms.float32)
    assert np.isnan(kernel(HUNDRED, HUNDRED, HUNDRED).asnumpy()).any()


def test_a_product_of_80_000_overflows_before_the_softmax():
    """In autocast as here; a configuration with `upcast_attention` multiplies in float32 too."""
    assert not np.isfinite(attention(upcast=False)(HUNDRED, HUNDRED, HUNDRED).asnumpy()).all()


def test_a_loss_of_120_000_needs_its_island():
    logits, label = Tensor([[60000.0, -60000.0]], ms.float32), Tensor([1], ms.int32)
    with override("cross_entropy", "reference"):
        loss = kernels.cross_entropy()
    assert loss(logits, label) == 120000
    assert narrowed(loss)(logits, label) == np.inf


# An overflow must be seen by whoever looks after the loss scale.


@pytest.mark.parametrize(("name", "level"), [("gpt2", "O1"), ("llama", "O2"), ("gpt2 relu by layer", "O2")])
def test_an_overflow_reaches_the_norm_of_the_gradients(pair, name, level):
    loss, gradients = trained(built(pair, name, level), scale=2.0**24)
    assert np.isfinite(loss)
    for path in ("cpu", "reference"):
        with override("global_norm", path):
            assert not np.isfinite(kernels.global_norm()([Tensor(g) for g in gradients.values()]).asnumpy())


def test_a_scale_of_1024_overflows_nothing(pair, exact):
    loss, gradients = trained(built(pair, "llama", "O2"), scale=1024.0)
    assert apart((loss / 1024, {name: g / 1024 for name, g in gradients.items()}), exact("llama")) <= LIMIT


def test_relu_hands_nan_on():
    relu = kernels.activation("relu")
    np.testing.assert_array_equal(relu(Tensor([np.nan, -1.0, 2.0], ms.float32)).asnumpy(), [np.nan, 0, 2])


# What cannot be.


def test_bfloat16_stops_on_a_cpu_before_any_work():
    with pytest.raises(BackendError, match="bfloat16"):
        Precision("O1", "bfloat16")
    assert Precision("O0", "bfloat16").products == "float32"


def test_bfloat16_is_allowed_on_ascend(monkeypatch):
    monkeypatch.setattr(ms, "get_context", lambda _: "Ascend")
    assert Precision("O2", "bfloat16").stream == "bfloat16"


@pytest.mark.parametrize("wrong", [{"level": "O3"}, {"level": "O1", "dtype": "float8"}], ids=str)
def test_no_such_precision_stops(wrong):
    with pytest.raises(UsageError):
        Precision(**wrong)


def test_mixed_precision_of_half_weights_stops(pair):
    with pytest.raises(UsageError, match="float32 weights"):
        built(pair, "llama", "O1", dtype="float16")
