"""The same rows through MindSpore's own pipeline, for `Model.train` and whoever builds on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mindport.errors import UsageError
from mindport.training.data.encoder import to_batch
from mindport.training.data.order import Order

if TYPE_CHECKING:
    from mindport.training.data.prepared import Prepared


def mind_dataset(
    prepared: Prepared, split: str, rows: int, *, seed: int, epoch: int, rank: int, ranks: int, shuffle: bool
) -> Any:
    """One epoch's whole batches of one rank, in the order of `Prepared.batches`.

    Raises:
        UsageError: the rows have several lengths, or there are fewer than a batch.
    """
    import mindspore.dataset as ds

    lengths = prepared.lengths(split)
    if len(lengths) != 1:
        raise UsageError("a MindDataset has rows of one length", got=list(lengths),
                         do="take Prepared.batches, or prepare without buckets")  # fmt: skip
    order = Order({lengths[0]: prepared.size(split)}, rows, seed, shuffle).epoch_rows(epoch)
    whole = len(order) // rows * rows
    mine = order[:whole].reshape(-1, ranks, rows // ranks)[:, rank].ravel()
    if not len(mine):
        raise UsageError("there are fewer rows than a batch takes", got=len(order), expected=f"at least {rows}")
    files = [str(prepared.directory / name) for name in prepared.manifest.lengths(split)[lengths[0]]]
    data = ds.MindDataset(files, columns_list=["row", "tokens"], sampler=ds.SubsetSampler(mine.tolist()))
    data = data.batch(rows // ranks)
    # a sampler keeps its order over several files in MindSpore 2.10; that it did is looked at, row by row
    return data.map(_Decode(mine), ["row", "tokens"], ["ids", "labels"], num_parallel_workers=1)


class _Decode:
    """Numbers and bytes of rows to ids and labels; refuses rows out of order."""

    def __init__(self, order: np.ndarray) -> None:
        self.order, self.at = order, 0

    def __call__(self, row: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = self.order[self.at : self.at + len(row)]
        if not np.array_equal(row.ravel(), wanted):
            raise RuntimeError(f"MindDataset read rows {row.ravel()[:4]}, where {wanted[:4]} were asked for")
        self.at = (self.at + len(row)) % len(self.order)
        batch = to_batch(np.ascontiguousarray(tokens).view("<i4").reshape(len(row), -1))
        return batch.ids, batch.labels
