"""The Ascend paths, with each operator replaced by a fake that records its call: they cannot run on this machine.

A fake that computes what the operator's documentation says also shows that the path agrees with the reference.
"""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from mindport.model import kernels
from mindport.model.kernels import override
from tests.model.kernels.cases import CASES, D, H, make_attention, normal
from tests.model.kernels.hashes import kept, place

CALLS: list = []


@pytest.fixture(autouse=True)
def calls():
    CALLS.clear()
    return CALLS


def fake(monkeypatch, name, result):
    def record(*args, **kwargs):
        CALLS.append((args, kwargs))
        return result(*args, **kwargs)

    monkeypatch.setattr(ops, name, record)


def both(name, kernel):
    """The same inputs through the Ascend path and through the reference."""
    make, _, inputs, _ = CASES[name]
    with override(kernel, "ascend"):
        ascend = make()
    tensors = [Tensor(x) for x in inputs]
    return ascend(*tensors), make()(*tensors)


def flash(q, k, v, head_num, attn_mask=None, scalar_value=1.0, sparse_mode=0, pre_tokens=0, next_tokens=0, **kwargs):
    """What the documentation says: True in the mask is discarded; modes 3 and 4 are counted from the lower right,
    where 4 keeps `pre_tokens` before and `next_tokens` after the diagonal, both ends included."""
    t, s = q.shape[1], k.shape[1]
    hidden = attn_mask.asnumpy() if sparse_mode == 0 else np.triu(np.ones((t, s), bool), s - t + 1)
    if sparse_mode == 4:
        distance = np.arange(t)[:, None] + s - t - np.arange(s)  # of a key before its query
        hidden = (distance > pre_tokens) | (distance < -next_tokens)
    q, k, v = (x.asnumpy().swapaxes(1, 2) for x in (q, k, v))
    k, v = (np.repeat(x, head_num // x.shape[1], 1) for x in (k, v))
    scores = np.where(hidden, -np.inf, q @ k.swapaxes(2, 3) * scalar_value)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return Tensor(((weights / weights.sum(-1, keepdims=True)) @ v).swapaxes(1, 2))


@pytest.mark.parametrize("name", ["attention", "attention one kv head", "attention after a cache"])
def test_attention(monkeypatch, name):
    fake(monkeypatch, "flash_attention_score", flash)
    got, expected = both(name, "attention")
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), atol=4e-6)
    (args, kwargs), mask = CALLS[0], CALLS[0][1]["attn_mask"]
    assert args[3] == H
    assert (kwargs["input_layout"], kwargs["sparse_mode"], kwargs["scalar_value"]) == ("BSND", 3, 0.37)
    assert (kwargs["keep_prob"], kwargs["drop_mask"]) == (1.0, None)
    assert (mask.shape, mask.dtype) == ((2048, 2048), ms.bool_)
    np.testing.assert_array_equal(mask[:3, :3].asnumpy(), [[0, 1, 1], [0, 0, 1], [0, 0, 0]])


@pytest.mark.parametrize(("name", "window"), [("attention in a window", 2), ("attention in a window after a cache", 3)])
def test_attention_in_a_window_is_a_band(monkeypatch, name, window):
    fake(monkeypatch, "flash_attention_score", flash)
    got, expected = both(name, "attention")
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), atol=4e-6)
    kwargs = CALLS[0][1]
    assert (kwargs["sparse_mode"], kwargs["pre_tokens"], kwargs["next_tokens"]) == (4, window - 1, 0)
    assert kwargs["attn_mask"].shape == (2048, 2048)


@pytest.mark.parametrize("window", [None, 2])
def test_attention_with_an_offset_gives_the_whole_mask(monkeypatch, window):
    fake(monkeypatch, "flash_attention_score", flash)
    q, k, v = (Tensor(x) for x in (normal(1, 4, 6, 8), normal(1, 10, 2, 8), normal(1, 10, 2, 8, seed=2)))
    with override("attention", "ascend"):
        got = make_attention(window=window)(q, k, v, Tensor(3, ms.int32))
    np.testing.assert_allclose(got.asnumpy(), make_attention(window=window)(q, k, v, 3).asnumpy(), atol=4e-6)
    assert CALLS[0][1]["sparse_mode"] == 0
    assert (CALLS[0][1]["attn_mask"].shape, CALLS[0][1]["attn_mask"].dtype) == ((4, 10), ms.bool_)


def test_attention_drops_in_training_only(monkeypatch):
    fake(monkeypatch, "flash_attention_score", flash)
    q, k, v = (Tensor(x) for x in (normal(1, 8, 6, 8), normal(1, 8, 2, 8), normal(1, 8, 2, 8, seed=2)))
    with override("attention", "ascend"):
        kernel = make_attention(dropout=0.25, place=place())
    kernel(q, k, v)
    kernel.set_train()(q, k, v)
    (_, still), (_, training) = CALLS
    assert (still["keep_prob"], still["drop_mask"]) == (1.0, None)
    assert training["keep_prob"] == 0.75
    assert (training["drop_mask"].shape, training["drop_mask"].dtype) == ((1, 6, 8, 1), ms.uint8)
    bits = np.unpackbits(training["drop_mask"].asnumpy().reshape(-1, 1), axis=1, bitorder="little")
    np.testing.assert_array_equal(bits, kept(6 * 8, 8, 0.25))


def test_rms_norm(monkeypatch):
    def norm(x, gamma, epsilon):
        x = x.asnumpy()
        return Tensor(x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma.asnumpy()), None

    fake(monkeypatch, "rms_norm", norm)
    got, expected = both("rms_norm", "rms_norm")
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), atol=4e-6)
    assert CALLS[0][0][2] == 1e-3


@pytest.mark.parametrize("name", ["rope", "rope of a part"])
def test_rope(monkeypatch, name):
    def rotate(x, cos, sin, mode):
        half = x.shape[-1] // 2
        turned = np.concatenate([-x.asnumpy()[..., half:], x.asnumpy()[..., :half]], -1)
        return Tensor(x.asnumpy() * cos.asnumpy() + turned * sin.asnumpy())

    fake(monkeypatch, "rotary_position_embedding", rotate)
    got, expected = both(name, "rope")
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), atol=4e-6)
    x, cos, sin, mode = CALLS[0][0]
    assert mode == 0
    assert cos.shape == sin.shape == (1, x.shape[1], 1, D if name == "rope" else D - 2)
    assert x.shape[-1] == cos.shape[-1]


@pytest.mark.parametrize(("approximate", "word"), [(True, "tanh"), (False, "none")])
def test_gelu(monkeypatch, approximate, word):
    fake(monkeypatch, "gelu", lambda x, approximate: x)
    with override("gelu", "ascend"):
        kernels.gelu(approximate=approximate)(Tensor([1.0]))
    assert CALLS[0][0][1] == word


def test_swiglu(monkeypatch):
    def swiglu(x, dim):
        gate, up = np.split(x.asnumpy(), 2, dim)
        return Tensor(gate / (1 + np.exp(-gate)) * up)

    fake(monkeypatch, "swiglu", swiglu)
    got, expected = both("swiglu", "swiglu")
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), atol=1e-5)
    assert CALLS[0][0][1] == -1


def test_cross_entropy(monkeypatch):
    real = ops.cross_entropy
    fake(monkeypatch, "cross_entropy", real)
    got, expected = both("cross_entropy", "cross_entropy")
    np.testing.assert_allclose(got.asnumpy(), expected.asnumpy(), rtol=1e-6)
    assert CALLS[0][1] == {"ignore_index": -100}
