"""What MindSpore 2.10 does otherwise than one would expect, and the library steps around.

Each test holds the surprise itself: when a new version turns one red, the step around it can go.
"""

from __future__ import annotations

import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Tensor, nn, ops


def test_tanh_is_inaccurate_on_a_cpu():
    """Near |x| = 5 by 1e-4, where NumPy's float32 is right to 1e-7; GELU therefore takes the sigmoid form."""
    x = np.linspace(4, 6, 2001, dtype=np.float32)
    error = np.abs(ops.tanh(Tensor(x)).asnumpy() - np.tanh(x.astype(np.float64))).max()
    assert 2e-5 < error < 1e-3
    assert np.abs(np.tanh(x) - np.tanh(x.astype(np.float64))).max() < 2e-7


def test_the_default_epsilon_differs_from_torch():
    assert nn.LayerNorm((4,)).epsilon == 1e-7  # torch: 1e-5


def test_a_negative_index_counts_from_the_end():
    """Silently, where torch's embedding raises; so `greedy` checks its ids."""
    table = Tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert ops.gather(table, Tensor([-1], ms.int32), 0).asnumpy().tolist() == [[4.0, 5.0]]


def test_an_index_beyond_the_table_is_an_error():
    with pytest.raises(RuntimeError, match="should be in the range"):
        ops.gather(Tensor(np.ones((3, 2), np.float32)), Tensor([5], ms.int32), 0).asnumpy()


SOFTMAX = """
import mindspore as ms, numpy as np
from mindspore import Tensor, ops
softmax = ops.Softmax(-1)
def error(n):
    x, g = np.linspace(-1, 1, n, dtype=np.float32), np.arange(n, dtype=np.float32)
    got = ms.grad(lambda x, g: (softmax(x) * g).sum())(Tensor(x), Tensor(g)).asnumpy()
    p = np.exp(x) / np.exp(x).sum()
    return np.abs(got - p * (g - (p * g).sum())).max()
"""


@pytest.mark.parametrize(("sizes", "right"), [((1, 7), False), ((7, 1, 7), True)])
def test_a_first_softmax_over_one_number_spoils_the_gradients_of_all_later_ones(sizes, right):
    """In PyNative, in silence; so attention in plain operators has no softmax where there is one key."""
    code = f"{SOFTMAX}\nprint([error(n) for n in {sizes}][-1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    error = float(done.stdout.split()[-1])
    assert error < 1e-5 if right else error > 1e-2


def test_expm1_loses_its_digits_near_zero():
    """So AdamW's 1 - beta ** t is a series of its own (kernels/adamw.py)."""
    got = ops.expm1(Tensor([-1e-5], ms.float32)).asnumpy()[0]
    assert abs(got / np.expm1(-1e-5) - 1) > 1e-4


@pytest.mark.parametrize("approximate", ["tanh", "none"])
def test_fast_gelu_is_another_function(approximate):
    """x σ(1.702 x): 0.02 off around ±2.3, where a wrong form of GELU is off by 5e-4; so no path takes it."""
    x = torch.linspace(-8, 8, 4001)
    fast = ops.fast_gelu(Tensor(x.numpy())).asnumpy()
    np.testing.assert_allclose(fast, (x * torch.sigmoid(1.702 * x)).numpy(), atol=2e-6)
    off = np.abs(fast - torch.nn.functional.gelu(x, approximate=approximate).numpy()).max()
    assert 0.019 < off < 0.022
