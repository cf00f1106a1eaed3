"""The gradients' norm and what clips them, against torch.nn.utils.clip_grad_norm_."""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Tensor, nn

from mindport.errors import UsageError
from mindport.model.kernels import override
from mindport.training import ClipNorm, clip
from tests.model.kernels.planted import planted
from tests.model.reference import MODES, execution

SHAPES = [(130, 131), (33,), (1,), (3, 5, 7)]  # the first is two pieces of work
PATHS = ["cpu", "reference"]


def gradients(size: float = 1.0) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) * np.float32(size) for shape in SHAPES]


def expected(given: list[np.ndarray], max_norm: float) -> tuple[float, list[np.ndarray]]:
    weights = [torch.nn.Parameter(torch.zeros(g.shape)) for g in given]
    for weight, gradient in zip(weights, given, strict=True):
        weight.grad = torch.from_numpy(gradient.copy())
    return torch.nn.utils.clip_grad_norm_(weights, max_norm).item(), [weight.grad.numpy() for weight in weights]


class Call(nn.Cell):
    def __init__(self, max_norm: float | None) -> None:
        super().__init__()
        self.clip = ClipNorm(max_norm)

    def construct(self, *gradients):
        return self.clip(gradients)


def ours(given: list[np.ndarray], max_norm: float | None, path: str = "cpu") -> tuple[float, list[np.ndarray]]:
    with override("global_norm", path):
        norm, scale = Call(max_norm)(*map(Tensor, given))
    assert (norm.shape, scale.shape, scale.dtype) == ((), (), ms.float32)
    return norm.asnumpy().item(), [gradient * scale.asnumpy() for gradient in given]


def same(got: tuple[float, list[np.ndarray]], wanted: tuple[float, list[np.ndarray]]) -> bool:
    """Within 1e-6 of each number, NaN included."""
    pairs = [(got[0], wanted[0]), *zip(got[1], wanted[1], strict=True)]
    return all(np.allclose(a, b, rtol=1e-6, atol=0, equal_nan=True) for a, b in pairs)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("size", "max_norm"), [(1, 1), (1, 1e9), (1e-7, 1e-6), (0, 1), (1e4, 0.5)])
def test_equals_torch(size, max_norm, path):
    assert same(ours(gradients(size), max_norm, path), expected(gradients(size), max_norm))


@pytest.mark.parametrize("path", PATHS)
def test_equals_torch_in_graph_mode(path):
    with execution(MODES["graph"]):
        assert same(ours(gradients(), 1.0, path), expected(gradients(), 1.0))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_hidden(value, path):
    bad = gradients()
    bad[1][4] = value
    with np.errstate(invalid="ignore"):
        norm, clipped = ours(bad, 1.0, path)
    assert same((norm, clipped), expected(bad, 1.0))
    assert not math.isfinite(norm)
    assert np.isnan(clipped[1][4])


def test_without_a_limit_the_norm_is_measured_all_the_same():
    norm, clipped = ours(gradients(3), None)
    assert norm == pytest.approx(expected(gradients(3), math.inf)[0], rel=1e-6)
    assert all(map(np.array_equal, clipped, gradients(3)))


def test_squares_beyond_float32_have_a_norm():
    assert ours([np.full((3,), 1e30, np.float32)], None)[0] == pytest.approx(3**0.5 * 1e30, rel=1e-6)


def test_another_epsilon_is_seen(monkeypatch):
    monkeypatch.setattr(clip, "EPS", 0.0)
    assert not same(ours(gradients(1e-7), 1e-6), expected(gradients(1e-7), 1e-6))


@pytest.mark.parametrize(
    ("old", "new"),
    [("+ list[i].from", ""), ("for (const double part : parts) total += part", "total = parts[0]")],
)
def test_a_planted_fault_is_seen(old, new):
    with planted("global_norm.cc", old, new):
        assert not same(ours(gradients(), 1.0), expected(gradients(), 1.0))


@pytest.mark.parametrize("max_norm", [0.0, -1.0, math.nan])
def test_a_norm_that_is_no_limit_stops(max_norm):
    with pytest.raises(UsageError, match="clipped"):
        ClipNorm(max_norm)
