"""The benchmarks by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mindport.errors import UsageError
from mindport.machine import cores, machine, versions
from mindport.tuning.benchmark import Benchmark
from mindport.tuning.case import Case
from mindport.tuning.knobs import Knobs
from mindport.tuning.parallel_case import Parallel

# name → module of this package with `cases(quick)`, and the result that shows them
BENCHMARKS: dict[str, tuple[str, type[Benchmark]]] = {
    "attention": ("attention", Benchmark),
    "layer": ("layer", Benchmark),
    "step": ("step", Benchmark),
    "train": ("train", Benchmark),
    "knobs": ("knobs", Knobs),
    "convert": ("conversion", Benchmark),
    "data": ("data", Benchmark),
    "parallel": ("parallel", Parallel),
}


def bench(name: str, quick: bool = False) -> Benchmark:
    """Run one benchmark by name.

    Args:
        name: one of `BENCHMARKS`.
        quick: tiny shapes and two rounds, to see that it works; its times mean nothing.

    Raises:
        UsageError: there is no such benchmark.
        BackendError: a contestant cannot be built, or fails.
    """
    if name not in BENCHMARKS:
        raise UsageError("there is no such benchmark", got=name, expected=", ".join(BENCHMARKS))
    module, kind = BENCHMARKS[name]
    cases = list(_told(importlib.import_module(f"mindport.tuning.{module}").cases(quick)))
    return kind(name, _with_highest_peaks(cases), machine(["CPU"]), versions(), 1 if quick else cores())


def _told(cases: Iterator[Case]) -> Iterator[Case]:
    """Say each case as it ends: a benchmark takes minutes."""
    for case in cases:
        ratios = ", ".join(f"{ratio:.2f} × {peer}" for peer, ratio in case.ratios.items())
        print(f"bench: {case.name}: {ratios}", file=sys.stderr, flush=True)
        yield case


def _with_highest_peaks(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The machine's peaks as the highest of the run: each case measured them in one of its moments."""
    names = {name for case in cases for name in case.peaks}
    highest = {name: max(case.peaks.get(name, 0.0) for case in cases) for name in sorted(names)}
    return tuple(replace(case, peaks=highest) if case.peaks else case for case in cases)
