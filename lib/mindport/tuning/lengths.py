"""Texts of different lengths in Graph mode: what is compiled how often, and what padding and buckets do about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mindport.config import to_dict
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.tuning.isolated import isolated
from mindport.tuning.workload import cut_model, effort

COUNTS = {"smoke": 3, "small": 6, "full": 12}  # texts
BATCH, STEP = 2, 37  # texts differ by so many tokens, a number that no bucket divides
BUCKETS = 2
LIMIT = 1e-5  # relative, of a loss
WIDTH = 90  # characters of a message
IGNORED = -100


@dataclass(frozen=True)
class Way:
    """One way to treat the lengths.

    Attributes:
        name: in tables.
        compiles: graphs that were made; 0 in PyNative mode.
        first, again: seconds for all texts, the first time and the second.
        padding: tokens that were computed for nothing, over those that count.
        error: largest relative difference of a loss from PyNative's on the text as it is.
        refused: why this model cannot go this way; "" when it can.
    """

    name: str
    compiles: int = 0
    first: float = 0.0
    again: float = 0.0
    padding: float = 0.0
    error: float = 0.0
    refused: str = ""


@dataclass(frozen=True)
class Lengths(Result):
    """All ways on the same texts."""

    lengths: tuple[int, ...]
    ways: tuple[Way, ...]

    @property
    def ok(self) -> bool:
        """Whether the counts are as they must be, and padding changed no loss."""
        counts = {way.name: way.compiles for way in self.ways if not way.refused}
        wanted = {EAGER: 0, AS_THEY_COME: len(self.lengths), PADDED: 1, BUCKETED: BUCKETS}
        return all(counts.get(name) == count for name, count in wanted.items()) and all(
            way.error <= LIMIT for way in self.ways if not way.refused
        )

    def headline(self) -> str:
        by = {way.name: way for way in self.ways}
        each, padded, bucketed = by[AS_THEY_COME], by[PADDED], by[BUCKETED]
        said = "the same losses" if self.ok else "NOT AS EXPECTED"
        return (f"{len(self.lengths)} lengths, compilations and seconds the first time: as they come {each.compiles}, "
                f"{each.first:.1f} s; padded {padded.compiles}, {padded.first:.1f} s; in buckets {bucketed.compiles}, "
                f"{bucketed.first:.1f} s; {said}")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [(w.name, w.compiles, f"{w.first:.2f}", f"{w.again:.3f}", f"{w.padding:.0%}", w.error, "pass")
                if not w.refused else (w.name, None, None, None, None, None, f"refused: {w.refused}")
                for w in self.ways]  # fmt: skip
        columns = ("way", "compilations", "s, first time", "s, again", "padding", "loss off by", "state")
        return (Table(f"lengths {', '.join(map(str, self.lengths))}", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        how = "graphs counted in the cell's own cache; losses of padded texts against the texts as they are, PyNative"
        return (verdict("padding and buckets bound the compilations and change no loss", self.ok, how, self.headline(),
                        "CPU"),)  # fmt: skip


EAGER, AS_THEY_COME, PADDED, BUCKETED, DYNAMIC = (
    "PyNative, as they come", "Graph, as they come", "Graph, padded to the longest", f"Graph, {BUCKETS} buckets",
    "Graph, Tensor(shape=[B, None])",
)  # fmt: skip


def compare_shapes(directory: Path | str, size: str, allow: Sequence[str] = ()) -> Lengths:
    """Go every way with one layer of the cut model, in a process of its own.

    Raises:
        BackendError: the process failed.
    """
    cut, count = cut_model(directory, size, allow), COUNTS[size]
    longest = max(effort(size).tokens, STEP * count)
    chosen = tuple(longest - STEP * i for i in range(count))[::-1]
    config = to_dict(cut.config.with_layers(1)) | {"max_position_embeddings": longest}
    return Lengths(chosen, tuple(Way(**way) for way in isolated(measure, config, chosen)))


def measure(config: dict[str, Any], chosen: Sequence[int]) -> list[dict[str, Any]]:
    """Every way, the fields of a `Way` each; run in a process of its own."""
    import mindspore as ms

    longest = max(chosen)
    half = sorted(chosen)[(len(chosen) - 1) // BUCKETS]
    graph = partial(_way, config, chosen, ms.GRAPH_MODE)
    found = {
        EAGER: _way(config, chosen, ms.PYNATIVE_MODE, lambda n: n),
        AS_THEY_COME: graph(lambda n: n),
        PADDED: graph(lambda n: longest),
        BUCKETED: graph(lambda n: half if n <= half else longest),
    }
    right = found[EAGER]["losses"]
    try:
        found[DYNAMIC] = graph(lambda n: n, dynamic=True)
    except Exception as error:  # a model that is not made for unknown lengths fails in ways of its own
        found[DYNAMIC] = {"refused": str(error).strip().splitlines()[0][:WIDTH], "losses": right}
    return [_judged({"name": name, **way}, right) for name, way in found.items()]


def _way(config: dict[str, Any], chosen: Sequence[int], mode: int, padded: Callable[[int], int],
         dynamic: bool = False) -> dict[str, Any]:  # fmt: skip
    """All texts twice through a fresh model."""
    import mindspore as ms

    from mindport.config import from_dict
    from mindport.model import GPT, NextTokenLoss
    from mindport.tuning import shapes

    ms.set_context(mode=mode)
    loss = NextTokenLoss(GPT(from_dict(config), shapes.weight)).set_train()
    if dynamic:
        unknown = ms.Tensor(shape=[BATCH, None], dtype=ms.int32)
        loss.set_inputs(unknown, unknown)
    texts = [_text(n, padded(n), config["vocab_size"]) for n in chosen]
    start = time.perf_counter()
    losses = [float(loss(*text).asnumpy()) for text in texts]
    first = time.perf_counter() - start
    for text in texts:
        loss(*text).asnumpy()
    again = time.perf_counter() - start - first
    wasted = sum(map(padded, chosen)) / sum(chosen) - 1
    return {"compiles": len(loss.compile_cache), "first": first, "again": again, "padding": wasted, "losses": losses}


def _text(count: int, padded: int, vocab_size: int) -> tuple[Any, Any]:
    """Ids and labels (B, padded); what is padded does not count."""
    import mindspore as ms
    import numpy as np

    from mindport.tuning import shapes

    ids = np.pad(shapes.batch(BATCH, count, vocab_size), ((0, 0), (0, padded - count)))
    labels = ids.copy()
    labels[:, count:] = IGNORED
    return ms.Tensor(ids), ms.Tensor(labels)


def _judged(way: dict[str, Any], right: Sequence[float]) -> dict[str, Any]:
    """`way` with the largest relative error of its losses in place of them."""
    import numpy as np

    losses, right = np.array(way.pop("losses")), np.array(right)
    return way | {"error": float((np.abs(losses - right) / right).max())}  # NaN when one is NaN
