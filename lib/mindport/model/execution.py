"""MindSpore's execution mode by the names that configurations have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import mindspore as ms

MODES = {"pynative": ms.PYNATIVE_MODE, "graph": ms.GRAPH_MODE}


@contextlib.contextmanager
def execution(mode: str) -> Iterator[None]:
    """This mode for the time of the block, "pynative" or "graph"."""
    before = ms.get_context("mode")
    if before != MODES[mode]:
        ms.set_context(mode=MODES[mode])
    try:
        yield
    finally:
        if before != MODES[mode]:
            ms.set_context(mode=before)
