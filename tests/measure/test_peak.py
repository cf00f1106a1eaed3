"""The peaks of this machine: in order, of a plausible size. How fast it is, no test may say."""

from __future__ import annotations

import os

import pytest

from mindport.errors import BackendError, FileError
from mindport.measure import peak


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(peak, "PRODUCTS", ((512, 512, 512), (300, 200, 400)))


def test_a_product_reaches_at_most_what_the_cpu_does():
    """Others use the machine too, so the product may be taken in a better moment: hence the margin."""
    product, most = peak.gemm_peak(1, repeats=5), peak.fma_peak(1, repeats=20)
    assert 0.5 < product <= 1.2 * most
    assert most < 1000  # GFLOP/s: no core does 2 × 16 × 2 of them at 15 GHz


def test_the_number_of_threads_is_given_back():
    import ctypes

    threads = ctypes.CDLL(str(peak.library())).omp_get_max_threads
    before = threads()
    peak.gemm_peak(before + 1, repeats=1)
    assert threads() == before


def test_a_glance_sees_a_plausible_rate():
    seen = peak.glance(seconds=0.05)
    assert seen is not None and 0.5 < seen < 1000 * (os.cpu_count() or 1)


@pytest.mark.parametrize("kind", [BackendError, FileError])
def test_without_a_library_there_is_none_to_see(monkeypatch, kind):
    def refuse() -> None:
        raise kind("no compiler")

    monkeypatch.setattr(peak, "library", refuse)
    assert peak.glance() is None
