"""A kernel held to its formula in float64: values and gradients, in both modes, recomputed or not."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import torch
from mindspore import Tensor, nn

from tests.model.reference import execution

VALUE, GRADIENT = 2e-6, 1e-5  # relative to the largest
FLOOR = 1e-3  # which counts as at least this


class Weighted(nn.Cell):
    """(output · weight).sum(), which makes gradients of every part of the output."""

    def __init__(self, kernel: nn.Cell, weight: np.ndarray) -> None:
        super().__init__()
        self.kernel, self.weight = kernel, Tensor(weight)

    def construct(self, *inputs):
        return (self.kernel(*inputs) * self.weight).sum()


def ours(kernel, inputs, count, weight, mode=ms.PYNATIVE_MODE):
    """Output, and gradients of (output · weight).sum(), of the first `count` inputs."""
    with execution(mode):
        tensors = [Tensor(x) for x in inputs]
        gradients = ms.grad(Weighted(kernel, weight), tuple(range(count)))(*tensors)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        return kernel(*tensors).asnumpy(), [g.asnumpy() for g in gradients]


def exact(formula, inputs, count, seed=5):
    """The same in float64 by torch, and the weight that makes the scalar."""
    tensors = [torch.from_numpy(x).double() if x.dtype == np.float32 else torch.from_numpy(x).long() for x in inputs]
    for x in tensors[:count]:
        x.requires_grad_()
    out = formula(*tensors)
    weight = np.random.default_rng(seed).standard_normal(out.shape).astype(np.float32)
    (out * torch.from_numpy(weight).double()).sum().backward()
    return out.detach().numpy(), [x.grad.numpy() for x in tensors[:count]], weight


def relative(got, expected):
    return np.abs(got - expected).max() / max(np.abs(expected).max(), FLOOR)


def worst(gradients, expected):
    """The largest error of several; one that is exactly 0 is held against the largest of the others.

    In a tail all of them may be 0 in float64 (GELU at -9 on some CPUs): the floor is that of `relative`.
    """
    largest = max(FLOOR, *(np.abs(x).max() for x in expected))
    pairs = zip(gradients, expected, strict=True)
    return max(relative(got, x) if x.any() else np.abs(got).max() / largest for got, x in pairs)


def used(kernel, formula, inputs, count, mode=ms.PYNATIVE_MODE) -> tuple[float, float]:
    """How much of the two limits is used up, by the value and by the worst gradient: 1 is all of it."""
    expected, gradients, weight = exact(formula, inputs, count)
    got, got_gradients = ours(kernel, inputs, count, weight, mode)
    assert [g.shape for g in (got, *got_gradients)] == [g.shape for g in (expected, *gradients)]
    return relative(got, expected) / VALUE, worst(got_gradients, gradients) / GRADIENT


def assert_holds(kernel, formula, inputs, count, mode=ms.PYNATIVE_MODE) -> None:
    value, gradient = used(kernel, formula, inputs, count, mode)
    assert value <= 1
    assert gradient <= 1
