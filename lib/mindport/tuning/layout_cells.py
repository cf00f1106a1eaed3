"""A norm over the hidden axis and a linear map, in four layouts; each cell takes its layout and gives it back."""

from __future__ import annotations

import numpy as np
from mindspore import Parameter, Tensor, nn, ops


class Norm(nn.Cell):
    """x / root mean square, over one axis."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.mean, self.rsqrt, self.axis = ops.ReduceMean(keep_dims=True), ops.Rsqrt(), axis

    def construct(self, x: Tensor) -> Tensor:
        return x * self.rsqrt(self.mean(x * x, self.axis) + 1e-5)


class Usual(nn.Cell):
    """(B, T, d) → (B, T, f)."""

    def __init__(self, w: np.ndarray) -> None:
        super().__init__()
        self.norm, self.matmul, self.w = Norm(-1), ops.MatMul(transpose_b=True), Parameter(Tensor(w))  # (f, d)

    def construct(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        return self.matmul(self.norm(x).reshape((-1, d)), self.w).reshape((b, t, -1))


class Copied(Usual):
    """(B, d, T) → (B, f, T), through the usual layout."""

    def construct(self, x: Tensor) -> Tensor:
        b, d, t = x.shape
        y = self.matmul(self.norm(x.transpose((0, 2, 1))).reshape((-1, d)), self.w)
        return y.reshape((b, t, -1)).transpose((0, 2, 1))


class Front(nn.Cell):
    """(B, d, T) → (B, f, T): W · x; the states are not copied, W is, once a sequence."""

    def __init__(self, w: np.ndarray) -> None:
        super().__init__()
        self.norm, self.w = Norm(1), Parameter(Tensor(w[None]))  # (1, f, d)
        self.matmul, self.tile = ops.BatchMatMul(), ops.Tile()

    def construct(self, x: Tensor) -> Tensor:
        return self.matmul(self.tile(self.w, (x.shape[0], 1, 1)), self.norm(x))


class Image(nn.Cell):
    """(B, d, T, 1) → (B, f, T, 1): a convolution of one pixel."""

    def __init__(self, w: np.ndarray) -> None:
        super().__init__()
        self.norm, self.w = Norm(1), Parameter(Tensor(w[:, :, None, None]))  # (f, d, 1, 1)
        self.convolution = ops.Conv2D(w.shape[0], 1)

    def construct(self, x: Tensor) -> Tensor:
        return self.convolution(self.norm(x), self.w)
