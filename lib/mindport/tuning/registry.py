"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mindport.errors import UsageError
from mindport.machine import machine, versions
from mindport.tuning.harness import Benchmark, Case


def _convert() -> Sequence[Case]:
    from mindport.tuning.conversion import cases

    return cases()


BENCHMARKS: dict[str, Callable[[], Sequence[Case]]] = {"convert": _convert}


def bench(name: str) -> Benchmark:
    """Run one benchmark by name.

    Raises:
        UsageError: there is no such benchmark.
    """
    if name not in BENCHMARKS:
        raise UsageError("there is no such benchmark", got=name, expected=", ".join(BENCHMARKS))
    return Benchmark(name, tuple(BENCHMARKS[name]()), machine(["CPU"]), versions())
