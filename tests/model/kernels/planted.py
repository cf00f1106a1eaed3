"""Kernels from a copy of the C++ sources: with a fault in it, or compiled for another CPU."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindport.model.kernels import library as module


@contextlib.contextmanager
def planted(
    source: str, old: str = "", new: str = "", *, compiler: str | None = None, beside: tuple[str, ...] = ()
) -> Iterator[None]:
    """Within this block, kernels that are made come from `source` alone, where `new` stands for `old`.

    They compute after it too: their library stays in the test's own directory.

    Args:
        source: a file of cpp/.
        old: text that stands in it once.
        new: what takes its place.
        compiler: instead of the usual one.
        beside: more files that are compiled with it.
    """
    directory, kept = Path(tempfile.mkdtemp(dir=Path.cwd())), {source, *beside}
    with pytest.MonkeyPatch.context() as patch:
        aside = directory / "cpp"
        shutil.copytree(module.SOURCES, aside, ignore=lambda _, names: {n for n in names if n.endswith(".cc")} - kept)
        text = (aside / source).read_text()
        assert not old or text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {source}"
        (aside / source).write_text(text.replace(old, new) if old else text)
        patch.setattr(module, "SOURCES", aside)
        patch.setenv("MINDPORT_CACHE", str(directory))
        if old:  # wrong with any optimisation, and compiled in half the time without
            patch.setattr(module, "FLAGS", tuple(flag.replace("-O3", "-O0") for flag in module.FLAGS))
        if compiler:
            patch.setenv("CXX", compiler)
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    module.library.cache_clear()
    module.unavailable.cache_clear()


OTHER_CPUS = ["g++ -mno-avx512f", "g++ -mno-avx"]  # vectors of 8 floats, and of 4
