"""Names of tensors as people read them: in natural order, and one pattern for all layers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from mindport.config.schema import LAYER


def natural(name: str) -> list[str | int]:
    """A key for `sorted`: layer 2 comes before layer 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def pattern(name: str) -> str:
    """The name with `{}` for each number that stands alone: `h.7.ln_1` is `h.{}.ln_1`."""
    return re.sub(r"(^|\.)\d+(?=\.|$)", rf"\g<1>{LAYER}", name)


def by_pattern(names: Iterable[str]) -> dict[str, int]:
    """How many names each pattern stands for, in the order of the names; one alone stands under its own name."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[pattern(name)].append(name)
    return {(made if len(group) > 1 else group[0]): len(group) for made, group in alike.items()}
