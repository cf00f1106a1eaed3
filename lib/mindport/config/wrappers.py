"""Prefixes that a training loop puts before a model's names, any number of them, one before the other.

module.   DataParallel and DistributedDataParallel        _orig_mod.     torch.compile
model., transformer.   a class that holds the model in an attribute of that name
"""

from __future__ import annotations

from collections.abc import Collection

from mindport.config.dialect import Dialect

WRAPPERS = ("module.", "_orig_mod.", "transformer.", "model.")
MOST = 8  # nobody wraps deeper, and a hostile name could go on for ever


def prefix_of(dialect: Dialect, name: str, known: Collection[str]) -> str | None:
    """The shortest prefix of wrappers, and of the family's own, without which `name` is a `known` one."""
    front = ""
    for _ in range(MOST + 1):
        if name in known:
            return front
        part = next((part for part in (dialect.prefix, *WRAPPERS) if part and name.startswith(part)), None)
        if part is None:
            return None
        front, name = front + part, name.removeprefix(part)
    return None


def wrappers_of(dialect: Dialect, prefix: str) -> str:
    """The wrappers of a prefix, which stand before the head's name too; the family's own does not."""
    return prefix.removesuffix(dialect.prefix)


def is_prefix(dialect: Dialect, prefix: str) -> bool:
    """Whether `prefix_of` could have found it."""
    return prefix_of(dialect, prefix, ("",)) is not None
