"""Which way a kernel is computed here, and why.

Each kernel has a `reference` path in plain operators that runs anywhere, and may have paths for one device, made
of the device's fused operators. The choice is made once, when the model is built, and is recorded:

    ms device     paths tried in this order
    Ascend        ascend, reference
    CPU           cpu, reference             (`cpu` is C++, compiled here: see library.py)

    with override("attention", "reference"):      # tests hold every path to the reference this way
        model = GPT(config)
    choices_table()                               # what was chosen, as a table
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import mindspore as ms
from mindspore import nn

from mindport.errors import BackendError
from mindport.tables import Table

ORDER: dict[str, tuple[str, ...]] = {"Ascend": ("ascend", "reference"), "CPU": ("cpu", "reference")}

_made: Counter[Choice] = Counter()
_overrides: dict[str, str] = {}


@dataclass(frozen=True)
class Choice:
    """A kernel, the path that computes it, and the reason."""

    kernel: str
    path: str
    reason: str


class Kernel(nn.Cell):
    """One way to compute one kernel; a subclass takes the kernel's settings as keyword arguments.

    `construct` uses `self.*` only: mixed precision level O1 rewrites the source of the class, and names of the
    module are then gone. (It also imports this file by its bare name, so no file here may be called like one in
    the folder above or in the standard library.)
    """

    @staticmethod
    def refuses(**settings: object) -> str | None:
        """Why this path cannot compute these settings; None when it can."""
        return None


def select(kernel: str, paths: Mapping[str, type[Kernel]], **settings: object) -> Kernel:
    """The kernel, made by the first path in this device's order that does not refuse.

    Args:
        kernel: its name, for the record.
        paths: name → class; `reference` is always among them.
        settings: passed to `refuses` and to the class.

    Raises:
        BackendError: an override names a path that this kernel does not have.
    """
    choice = _forced(kernel, paths) or _choose(kernel, paths, settings)
    _made[choice] += 1
    return paths[choice.path](**settings)


def choices() -> tuple[Choice, ...]:
    """Every different choice made in this process, oldest first."""
    return tuple(_made)


def choices_table() -> Table:
    """The choices, and how many cells were made by each."""
    rows = [(choice.kernel, choice.path, count, choice.reason) for choice, count in _made.items()]
    return Table("How each kernel is computed here", ("kernel", "path", "cells", "reason"), rows)


@contextlib.contextmanager
def override(kernel: str, path: str) -> Iterator[None]:
    """Within this block, models are built with `path` for `kernel`, whatever the device."""
    before = dict(_overrides)
    _overrides[kernel] = path
    try:
        yield
    finally:
        _overrides.clear()
        _overrides.update(before)


def _forced(kernel: str, paths: Mapping[str, type[Kernel]]) -> Choice | None:
    path = _overrides.get(kernel)
    if path is None:
        return None
    if path not in paths:
        raise BackendError("this kernel has no such path", where=kernel, got=path, expected=", ".join(paths))
    return Choice(kernel, path, "asked for by an override")


def _choose(kernel: str, paths: Mapping[str, type[Kernel]], settings: Mapping[str, object]) -> Choice:
    device = ms.get_context("device_target")
    refusals = []
    for path in ORDER.get(device, ("reference",)):
        if path in paths:
            why = paths[path].refuses(**settings)
            if why is None:
                return Choice(kernel, path, "; ".join(refusals) or _reason(device, path))
            refusals.append(f"{device}: the {path} path takes {why}")
    raise BackendError("no path computes this kernel", where=kernel, got="; ".join(refusals), expected="a path for it")


def _reason(device: str, path: str) -> str:
    how = {"reference": "plain operators", "cpu": "C++ compiled here", "ascend": "the device's own operator"}
    return f"{device}: {how[path]}"
