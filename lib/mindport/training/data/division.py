"""Which documents are held out: by their text, so that the same text is never on both sides."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mindport.training.data.encoder import Encoded

MANY = 1 << 24


def place(keys: np.ndarray, seed: int) -> np.ndarray:
    """Each text's place in [0, 1), float64: SplitMix64 of its key and the seed."""
    with np.errstate(over="ignore"):
        return (_mix(keys ^ _mix(np.array([seed], np.uint64))) >> np.uint64(11)) * 2.0**-53


def threshold(keys: Iterable[np.ndarray], seed: int, share: float) -> float:
    """Below which place a document is held out: so that it is the share of these to the nearest one, and one at least.

    Of very many the places are as even as one could wish, and need not be held in memory.
    """
    found, count = [], 0
    for part in keys:
        found.append(place(part, seed))
        count += len(part)
        if count > MANY:
            return share
    if not count:
        return share
    last = max(1, round(share * count)) - 1
    return float(np.nextafter(np.partition(np.concatenate(found), last)[last], 1.0))


def select(encoded: Encoded, chosen: np.ndarray) -> Encoded:
    """Some of the documents; `chosen` is bool (D,)."""
    if chosen.all():
        return encoded
    tokens = encoded.tokens[np.repeat(chosen, encoded.lengths)]
    return Encoded(tokens, encoded.lengths[chosen], encoded.keys[chosen], encoded.starts[chosen], encoded.empty)


class Unique:
    """Leaves out documents whose text was there before; 8 bytes of each are remembered (and Python's own)."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def __call__(self, encoded: Encoded) -> Encoded:
        """The documents that are new."""
        keys = encoded.keys.tolist()
        new = np.ones(len(keys), bool)
        for index, key in enumerate(keys):
            new[index] = key not in self.seen
            self.seen.add(key)
        return select(encoded, new)


def _mix(x: np.ndarray) -> np.ndarray:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
