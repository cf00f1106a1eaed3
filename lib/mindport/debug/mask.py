"""A fault of the code, not of the weights: attention without its causal mask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_mask() -> Iterator[None]:
    """Within this block every query sees every key (reference attention, PyNative mode)."""
    from mindspore import ops

    from mindport.model.kernels.attention import Reference

    mask = Reference.mask
    Reference.mask = lambda self, copies, t, s, offset: ops.zeros((copies, t, s))  # type: ignore[method-assign]
    try:
        yield
    finally:
        Reference.mask = mask  # type: ignore[method-assign]
