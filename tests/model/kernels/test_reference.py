"""Every kernel, on the path that is chosen here, against float64: values and gradients, in both modes."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Tensor

from mindport.model import kernels
from tests.model.kernels.cases import CASES, V, attention, make_attention, normal
from tests.model.kernels.exactness import assert_holds, exact, ours, relative


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name):
    make, *case = CASES[name]
    assert_holds(make(), *case)


@pytest.mark.parametrize("name",
                         ["attention after a cache", "attention in a window after a cache", "rope of a part",
                          "rms_norm around zero", "rms_norm", "gelu tanh", "cross_entropy"])  # fmt: skip
def test_graph_mode_computes_the_same(name):
    make, *case = CASES[name]
    assert_holds(make(), *case, ms.GRAPH_MODE)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("attention", lambda: make_attention(scale=0.38)),
        ("attention in a window", make_attention),
        ("attention in a window", lambda: make_attention(window=3)),
        ("attention in a window after a cache", lambda: make_attention(window=2)),
        ("rms_norm around zero", lambda: kernels.rms_norm(eps=1e-3)),
        ("rms_norm small", lambda: kernels.rms_norm(eps=1e-5)),
        ("layer_norm small", lambda: kernels.layer_norm(eps=1e-5)),
        ("gelu erf", lambda: kernels.gelu(approximate=True)),
        ("gelu tanh", lambda: kernels.gelu(approximate=False)),
        ("swiglu", lambda: kernels.gated("gelu")),
        ("cross_entropy", lambda: kernels.cross_entropy(ignore_index=5)),
    ],
)
def test_a_wrong_setting_is_seen(name, fault):
    _, formula, inputs, count = CASES[name]
    labels = (inputs[1] % V,) if name == "cross_entropy" else inputs[1:]  # −100 is no row once it is not ignored
    expected, _, weight = exact(formula, inputs, count)
    got, _ = ours(fault(), (inputs[0], *labels), count, weight)
    assert relative(got, expected) > 2e-5


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("offset", [0, 3])
def test_attention_with_an_offset_ignores_the_unwritten_tail(offset, window):
    q, k, v = normal(1, 4, 6, 8), normal(1, 10, 2, 8, seed=1), normal(1, 10, 2, 8, seed=2)
    expected = attention(*(torch.from_numpy(x).double() for x in (q, k, v)), offset=offset, window=window).numpy()
    k[:, offset + 4 :] = v[:, offset + 4 :] = 1e4
    kernel, tensors = make_attention(window=window), [Tensor(x) for x in (q, k, v)]
    for given in (offset, Tensor(offset, ms.int32)):
        np.testing.assert_allclose(kernel(*tensors, given).asnumpy(), expected, atol=4e-6)


def test_attention_in_half_precision_keeps_its_mask():
    """−1e9 would overflow there; rows of equal scores must still see only what is before them."""
    q = np.zeros((1, 4, 6, 8), np.float16)
    v = np.arange(4, dtype=np.float16).reshape(1, 4, 1, 1) + np.zeros((1, 4, 2, 8), np.float16)
    got = make_attention(dtype="float16")(Tensor(q), Tensor(q[:, :, :2]), Tensor(v)).asnumpy()
    assert got.dtype == np.float16
    np.testing.assert_allclose(got[0, :, 0, 0], [0, 0.5, 1, 1.5], atol=1e-3)


def test_cross_entropy_without_a_label_that_counts_is_nan_as_in_torch():
    logits, labels = normal(3, V), np.full(3, -100, np.int32)
    assert np.isnan(kernels.cross_entropy()(Tensor(logits), Tensor(labels)).asnumpy())
    assert torch.isnan(torch.nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels).long()))
