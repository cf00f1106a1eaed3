"""What MindSpore 2.10 does otherwise than one would expect, and the library steps around.

Each test holds the surprise itself: when a new version turns one red, the step around it can go.
"""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
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
