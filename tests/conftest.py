"""What every test has: a working directory of its own, since MindSpore drops files where it runs, and no clock."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from mindport.environment.system import find_compiler
from mindport.errors import BackendError

# on a busy machine an example may take any time, and that says nothing about the code
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# CI judges a commit, not the luck of a draw: the same examples each time; everybody else draws new ones
settings.register_profile("same draws", settings.get_profile("no clock"), derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "no clock"))


os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # two workers of two threads would spin for the same two cores
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each of some hundred processes compiles our modules anew


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A run of the notebooks that begins last would be waited for."""
    items.sort(key=lambda item: item.get_closest_marker("notebooks") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and test items are there to stay: no garbage is looked for while they come."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _what_stays_is_no_garbage() -> None:
    """MindSpore looks for garbage before it compiles a graph: half a second, among a million objects that stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("cwd"))


@pytest.fixture
def compiler() -> None:
    """Skip a test of the C++ kernels where nothing can compile them."""
    if not find_compiler(os.environ):
        pytest.skip("the C++ kernels need a compiler")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The same for tests that ask for a C++ path by its name, among others that need none."""
    try:
        return (yield)
    except BackendError as error:
        if find_compiler(os.environ) or "need a compiler" not in error.what:
            raise
        pytest.skip(error.what)
