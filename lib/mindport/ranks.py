"""Which part of a training is this process's: rows of each batch, and a share of the weights.

The processes stand in a grid: those with the same `dp_rank` share the weights of one replica (tensor parallelism),
those with the same `tp_rank` hold the same share of different replicas (data parallelism). Neighbours by number share
weights, as in Megatron-LM: on a server they are the ones with the fastest links.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindport.errors import UsageError


@dataclass(frozen=True)
class Ranks:
    """One process of the grid; nothing here imports a framework.

    Attributes:
        dp: replicas; each takes `rows / dp` of a batch.
        tp: processes that share the weights of a replica.
        rank: of this process among all.
        dp_group: MindSpore's name of the group that has this process's share of the weights; empty when it is alone.
        tp_group: of the group that shares this process's replica; empty when it is alone.

    Raises:
        UsageError: there is no such rank.
    """

    dp: int = 1
    tp: int = 1
    rank: int = 0
    dp_group: str = ""
    tp_group: str = ""

    def __post_init__(self) -> None:
        if self.dp < 1 or self.tp < 1 or not 0 <= self.rank < self.size:
            raise UsageError("there is no such rank", got=f"rank {self.rank} of dp {self.dp} × tp {self.tp}",
                             expected=f"0 … {self.dp * self.tp - 1}")  # fmt: skip

    @property
    def size(self) -> int:
        """All processes."""
        return self.dp * self.tp

    @property
    def dp_rank(self) -> int:
        """Which replica this is."""
        return self.rank // self.tp

    @property
    def tp_rank(self) -> int:
        """Which share of the weights this process holds."""
        return self.rank % self.tp

    @property
    def is_first(self) -> bool:
        """Whether this process writes what is written once."""
        return self.rank == 0


ALONE = Ranks()
