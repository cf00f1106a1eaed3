"""Whether all ranks hold the same weights, bit for bit: where they do not, they train different models from here on.

Replicas start from the same values and add the same sums, so nothing but a fault makes them differ: a bit that flips
in a card's memory, a rank that runs other code, a callback that wrote on one rank only. The loss hides it for long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mindport.errors import some
from mindport.training.collective import gather
from mindport.training.monitor import Alarm
from mindport.weights.dtypes import digest

if TYPE_CHECKING:
    from mindport.ranks import Ranks

NAME = "ranks differ"


def check_ranks(ranks: Ranks, weights: Mapping[str, np.ndarray], split: Collection[str], step: int) -> Alarm | None:
    """Compare 128 bits of each weight over all ranks; every rank gets the same answer.

    Args:
        ranks: this process; all of them call.
        weights: that it holds.
        split: of those, names of which ranks of a replica hold different parts.
        step: for the alarm.
    """
    if ranks.size == 1:
        return None
    digests = np.array([list(bytes.fromhex(digest(weights[name]))) for name in weights], np.uint8)  # (n, 16)
    odd = odd_ranks(gather(ranks, digests), list(weights), split, ranks.tp)
    return _alarm(odd, step) if odd else None


def odd_ranks(
    digests: np.ndarray, names: Sequence[str], split: Collection[str], tp: int
) -> dict[str, tuple[int, ...]]:  # fmt: skip
    """Name → the ranks whose weight is not what most have; of equally many the first rank is right.

    Args:
        digests: (ranks, names, …).
        names: of the weights.
        split: names of which only every tp-th rank has the same part.
        tp: ranks of a replica.
    """
    found: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        together = tp if name in split else 1
        for first in range(together):
            told = {rank: digests[rank, index].tobytes() for rank in range(first, len(digests), together)}
            (usual, _), *_ = Counter(told.values()).most_common(1)
            found.setdefault(name, []).extend(rank for rank in told if told[rank] != usual)
    return {name: tuple(sorted(ranks)) for name, ranks in found.items() if ranks}


def _alarm(odd: Mapping[str, tuple[int, ...]], step: int) -> Alarm:
    name, ranks = next(iter(odd.items()))
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {some(ranks, 8)}"
    more = f", and {len(odd) - 1} more weights" if len(odd) > 1 else ""
    return Alarm(
        step, NAME, f"{name} on {who} is not what the other ranks hold{more}",
        ("a callback, or other code, changed weights on one rank only",
         "the memory or the arithmetic of a card is at fault", "the ranks run different versions"),
        "go on from the last checkpoint: --resume; if it comes again on the same card, take that card out", fatal=True,
    )  # fmt: skip
