"""What this machine can reach, in GFLOP/s: the share of it that a program gets is what is left to gain.

    fma_peak(2)     multiplications and additions in registers that wait for nothing; the CPU can do no more
    gemm_peak(2)    our matrix product at sizes that suit it; a training step can do no more
    glance()        the same in half a second, at the start of a training

They are by the wall clock, so what else the machine does counts against them.
"""

from __future__ import annotations

import ctypes
import itertools
import time

from mindport.errors import BackendError, FileError
from mindport.model.kernels.library import library

REPEATS = 10
GLANCE = 0.5  # seconds
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
    return max(_product(rate, sizes, threads, repeats) for sizes in PRODUCTS)


def glance(seconds: float = GLANCE) -> float | None:
    """GFLOP/s of our matrix product on the threads that the kernels use: the best that `seconds` allow to find.

    None where it cannot be measured: without a compiler, or a cache for what it makes.
    """
    try:
        rate = _rate("gemm_rate")
    except (BackendError, FileError):
        return None
    threads, until = ctypes.CDLL(str(library())).omp_get_max_threads(), time.perf_counter() + seconds
    best = 0.0
    for sizes in itertools.cycle(PRODUCTS):
        best = max(best, _product(rate, sizes, threads, repeats=1))
        if time.perf_counter() > until:
            break
    return best


def _product(rate: ctypes._NamedFuncPointer, sizes: tuple[int, int, int], threads: int, repeats: int) -> float:
    return rate(*map(ctypes.c_int64, sizes), ctypes.c_int(threads), ctypes.c_int(repeats))


def _rate(name: str) -> ctypes._NamedFuncPointer:
    function = getattr(ctypes.CDLL(str(library())), name)
    function.restype = ctypes.c_double
    return function
