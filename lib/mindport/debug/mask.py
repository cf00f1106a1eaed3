"""A fault of the code, not of the weights: attention without its causal mask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_mask() -> Iterator[None]:
    """Models that are built within this block let every query see every key (PyNative mode)."""
    from mindspore import ops

    from mindport.model.kernels import override
    from mindport.model.kernels.attention import Reference

    mask = Reference.mask
    Reference.mask = lambda self, copies, t, s, offset: ops.zeros((copies, t, s))  # type: ignore[method-assign]
    try:
        with override("attention", "reference"):  # the others have no mask to take away
            yield
    finally:
        Reference.mask = mask  # type: ignore[method-assign]
