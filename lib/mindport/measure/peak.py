"""What this machine can reach, in GFLOP/s: the share of it that a program gets is what is left to gain.

    fma_peak(2)     multiplications and additions in registers that wait for nothing; the CPU can do no more
    gemm_peak(2)    our matrix product at sizes that suit it; a training step can do no more

Both are by the wall clock, so what else the machine does counts against them.
"""

from __future__ import annotations

import ctypes

from mindport.model.kernels.library import library

REPEATS = 10
PRODUCTS = ((1024, 1024, 1024), (2048, 2048, 512), (1152, 1152, 640))  # rows, columns, depth


def fma_peak(threads: int, repeats: int = REPEATS) -> float:
    """GFLOP/s of `threads` threads that do nothing but fused multiply-adds on float32; the best of `repeats`.

    Raises:
        BackendError: there is no compiler.
        FileError: the cache of compiled kernels cannot be written.
    """
    return _rate("fma_rate")(ctypes.c_int(threads), ctypes.c_int(repeats))


def gemm_peak(threads: int, repeats: int = REPEATS) -> float:
    """GFLOP/s of our float32 matrix product on `threads` threads; the best of a few large sizes and `repeats`.

    Raises:
        BackendError: there is no compiler.
        FileError: the cache of compiled kernels cannot be written.
    """
    rate = _rate("gemm_rate")
    sizes = ((ctypes.c_int64(n) for n in product) for product in PRODUCTS)
    return max(rate(*size, ctypes.c_int(threads), ctypes.c_int(repeats)) for size in sizes)


def _rate(name: str) -> ctypes._NamedFuncPointer:
    function = getattr(ctypes.CDLL(str(library())), name)
    function.restype = ctypes.c_double
    return function
