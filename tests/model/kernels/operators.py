"""Every operator of cpp/, with arrays of awkward shapes to call it on: for the sanitizers, and for calls from Python.

A new operator needs a row here (`test_operators.py` says so): cases, each a list of its arrays, inputs before outputs.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
from dataclasses import dataclass

import numpy as np

from mindport.model.kernels.library import SOURCES, library


@dataclass(frozen=True)
class Array:
    """One argument: random numbers (zeros when int32), or the `values`."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    values: tuple[float, ...] = ()

    def word(self) -> str:
        """As drive.cc reads it: `float32:7x65`, `int32:2=3,-1`."""
        values = f"={','.join(map(str, self.values))}" if self.values else ""
        return f"{self.dtype}:{'x'.join(map(str, self.shape))}{values}"

    def make(self, seed: int = 0) -> np.ndarray:
        if self.values:
            return np.array(self.values, self.dtype).reshape(self.shape)
        if self.dtype == "int32":
            return np.zeros(self.shape, np.int32)
        return np.random.default_rng(seed).standard_normal(self.shape).astype(self.dtype)


def f(*shape: int) -> Array:
    return Array(shape)


def numbers(*values: float, dtype: str = "float32") -> Array:
    return Array((len(values),), dtype, values)


def ints(*values: int) -> Array:
    return numbers(*values, dtype="int32")


LENGTHS = ((0,), (1,), (7,), (64,), (65,), (1000,), (3, 1, 5), (2, 20000))
ROWS = ((1,), (65,), (0, 8), (4, 0), (1, 1), (7, 65), (2, 3, 24), (1000, 8), (3, 1000), (65, 80), (130, 256))
ALIGNED, ENDLESS = -(2**31), 2**31 - 1  # an offset of S − T; no window, no padding
STATE = ints(5, -3)  # seed and passes
KEEPS = (ints(0, 0, 0, 1, 0), ints(2, 3_000_000, 1, 2, 1))  # place, dropped ones of 2²⁴, part, shares, share
ATTENTION = (  # B, T, S, H, K, D, window, offset, real tokens of each sequence or of all
    (1, 1, 1, 1, 1, 8, ENDLESS, ALIGNED, (ENDLESS,)), (2, 7, 7, 6, 2, 24, 1, ALIGNED, (ENDLESS,)),
    (1, 65, 65, 3, 1, 80, ENDLESS, 0, (ENDLESS,)), (2, 65, 130, 4, 2, 64, 17, ALIGNED, (130, 70)),
    (1, 3, 200, 2, 2, 128, ENDLESS, 5, (ENDLESS,)), (3, 40, 40, 2, 1, 256, ENDLESS, ALIGNED, (0, 1, 40)),
    (1, 1000, 1000, 1, 1, 8, 100, ALIGNED, (999,)), (1, 0, 4, 2, 1, 16, ENDLESS, 0, (ENDLESS,)),
)  # fmt: skip
PRODUCTS = ((1, 1, 1), (7, 11, 3), (1, 65, 1000), (65, 130, 70), (3, 1000, 24), (0, 8, 8), (250, 33, 300))  # rows, N, K
LOGITS = ((1, 1), (7, 11), (5, 65), (3, 1000), (4, 2500))
TENSORS = ((1,), (7, 11), (0,), (20_000,), (3, 5, 2))
HEADS = ((1, 1, 1, 8, 4), (2, 7, 3, 24, 12), (1, 65, 2, 80, 3), (2, 5, 1, 128, 64), (1, 3, 2, 7, 0), (0, 1, 1, 2, 1))


def pointwise(arrays: int) -> list[list[Array]]:
    return [[f(*shape)] * arrays for shape in LENGTHS]


def rotary() -> list[list[Array]]:
    cases = []
    for b, t, h, d, half in HEADS:
        for sequences in {1, b}:
            angles = f(sequences, t, half)
            cases.append([f(b, t, h, d), angles, angles, f(b, t, h, d)])
    return cases


def attention(grad: bool) -> list[list[Array]]:
    cases = []
    for (b, t, s, h, k, d, window, offset, lengths), keep in itertools.product(ATTENTION, KEEPS):
        q, kv, sums = f(b, t, h, d), f(b, s, k, d), (b, h, t)
        inputs = [q, kv, kv, numbers(0.3), ints(window), ints(offset), ints(*lengths), STATE, keep]
        above = Array(sums, "float32", (500.0,) * math.prod(sums))  # a sum is never less than a score
        cases.append([*inputs, q, above, q, q, kv, kv] if grad else [*inputs, q, f(*sums)])
    return cases


LINEAR = ("linear", "linear_bias", "linear_grad_input", "linear_grad_weight", "linear_grad_both")


def linear(name: str) -> list[list[Array]]:
    cases = []
    for rows, n, k in PRODUCTS:
        x, weight, y, bias = f(rows, k), f(n, k), f(rows, n), f(n)
        cases += {
            "linear": [[x, weight, y]],
            "linear_bias": [[x, weight, bias, y]],
            "linear_grad_input": [[y, weight, x]],
            "linear_grad_weight": [[y, x, weight]],
            "linear_grad_both": [[y, x, weight, bias]],
        }[name]
    return cases


def cross_entropy(grad: bool) -> list[list[Array]]:
    cases = []
    for n, v in LOGITS:
        labels = ints(*((v - 1, -100, 0) * n)[:n])
        rest = [f(n, 2), numbers(0.5), f(n, v)] if grad else [f(1), f(n, 2)]
        cases.append([f(n, v), labels, ints(-100), *rest])
    return cases


def cross_entropy_share(grad: bool) -> list[list[Array]]:
    """The middle of three parts, in which some labels are."""
    cases = []
    for n, v in LOGITS:
        labels = ints(*((v - 1, -100, 3 * v - 1, v) * n)[:n])
        rest = [f(n, 2), numbers(0.5), f(n, v)] if grad else [f(n, 3)]
        cases.append([f(n, v), labels, ints(-100), ints(v, 3 * v), *rest])
    return cases


def adamw() -> list[list[Array]]:
    parameters = [f(*shape) for shape in TENSORS]
    second = [Array(shape, "float32", (0.5,) * math.prod(shape)) for shape in TENSORS]  # no root of less than 0
    settings = [f(len(TENSORS)), numbers(0.9, 0.999, 1e-8, dtype="float64"), numbers(1e-3), numbers(1.0), ints(3)]
    return [[*parameters, *parameters, *second, *parameters, *settings, f(1)]]


# name → cases
OPERATORS: dict[str, list[list[Array]]] = {
    **{name: pointwise(2) for name in ("silu", "gelu_tanh", "gelu_erf")},
    **{name: pointwise(3) for name in ("silu_grad", "gelu_tanh_grad", "gelu_erf_grad")},
    **{name: pointwise(3) for name in ("swiglu", "geglu_tanh", "geglu_erf")},
    **{name: pointwise(5) for name in ("swiglu_grad", "geglu_tanh_grad", "geglu_erf_grad")},
    "attention": attention(grad=False),
    "attention_grad": attention(grad=True),
    **{name: linear(name) for name in LINEAR},
    "cross_entropy": cross_entropy(grad=False),
    "cross_entropy_grad": cross_entropy(grad=True),
    "cross_entropy_share": cross_entropy_share(grad=False),
    "cross_entropy_share_grad": cross_entropy_share(grad=True),
    "adamw": adamw(),
    "dropout": [[f(*shape), STATE, KEEPS[1], f(*shape)] for shape in ROWS],
    "global_norm": [[f(*shape) for shape in TENSORS] + [f(1)]],
    "rope": rotary(),
    "rope_grad": rotary(),
    "rms_norm": [[f(*s), f(s[-1]), numbers(1e-5, 1), f(*s), f(*s[:-1])] for s in ROWS],
    "rms_norm_grad": [[f(*s), f(s[-1]), numbers(1e-5, 1), f(*s[:-1]), f(*s), f(*s), f(s[-1])] for s in ROWS],
    "layer_norm": [[f(*s), f(s[-1]), f(s[-1]), numbers(1e-5), f(*s), f(*s[:-1]), f(*s[:-1])] for s in ROWS],
    "layer_norm_grad": [
        [f(*s), f(s[-1]), f(*s[:-1]), f(*s[:-1]), f(*s), f(*s), f(s[-1]), f(s[-1])] for s in ROWS
    ],
}  # fmt: skip


def defined() -> set[str]:
    """The operators that the sources define."""
    return {name for path in SOURCES.glob("*.cc") for name in re.findall(r"^OPERATOR\((\w+)\)", path.read_text(), re.M)}


def call(name: str, arrays: list[np.ndarray], threads: int = 0) -> int:
    """Run an operator; its status. The last arrays are its outputs."""
    compiled = ctypes.CDLL(str(library()))
    if threads:
        compiled.omp_set_num_threads(threads)
    count = len(arrays)
    shapes = [(ctypes.c_int64 * max(x.ndim, 1))(*x.shape) for x in arrays]
    pointer = ctypes.POINTER(ctypes.c_int64)
    return compiled[f"{name}_status"](
        count,
        (ctypes.c_void_p * count)(*[x.ctypes.data for x in arrays]),
        (ctypes.c_int * count)(*[x.ndim for x in arrays]),
        (pointer * count)(*[ctypes.cast(shape, pointer) for shape in shapes]),
        (ctypes.c_char_p * count)(*[str(x.dtype).encode() for x in arrays]),
        None,
        None,
    )
