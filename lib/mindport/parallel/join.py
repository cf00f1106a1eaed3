"""In a rank of a job: meet the others, and learn where in the grid it stands."""

from __future__ import annotations

import os

from mindspore.communication import create_group, get_group_size, get_rank, init

from mindport.errors import UsageError
from mindport.ranks import Ranks

LAUNCHED = (("MS_ROLE", "MS_WORKER_NUM"), ("RANK_ID", "RANK_SIZE"))  # by msrun; by a rank table on Ascend
_JOINED: dict[tuple[int, int], Ranks] = {}


def join(dp: int = 1, tp: int = 1) -> Ranks:
    """Meet the other ranks of this job, and stand in a grid of `dp` × `tp` with them.

    Each rank has to call it, and with the same numbers; again with these it returns the same. The collectives are those
    of the device: MindSpore's own on a CPU, HCCL on Ascend, which was not verified.

    Args:
        dp: replicas.
        tp: ranks that share the weights of a replica; neighbours by number.

    Raises:
        UsageError: this process is no rank of a job, or the job has not `dp` × `tp` ranks.
    """
    if (dp, tp) in _JOINED:
        return _JOINED[dp, tp]
    Ranks(dp, tp)  # refuses what is no grid, before anybody waits for the others
    if not any(all(name in os.environ for name in names) for names in LAUNCHED):
        raise UsageError("this process was started alone, and has nobody to join", got=f"dp {dp}, tp {tp}",
                         do=f"mindport launch --workers {dp * tp} SCRIPT")  # fmt: skip
    init()
    if (size := get_group_size()) != dp * tp:
        raise UsageError("the layout does not fit the job", got=f"dp {dp} × tp {tp} = {dp * tp} ranks",
                         expected=f"{size}, as many as were launched")  # fmt: skip
    rank = get_rank()
    dp_rank, tp_rank = divmod(rank, tp)
    dp_group = _group(f"dp{dp}-tp{tp}-same-weights-{tp_rank}", range(tp_rank, size, tp))
    tp_group = _group(f"dp{dp}-tp{tp}-same-replica-{dp_rank}", range(dp_rank * tp, (dp_rank + 1) * tp))
    _JOINED[dp, tp] = Ranks(dp, tp, rank, dp_group, tp_group)
    return _JOINED[dp, tp]


def _group(name: str, ranks: range) -> str:
    """The name of a new group, of which this process is one; a process that is alone needs none."""
    if len(ranks) == 1:
        return ""
    create_group(f"mindport-{name}", list(ranks))
    return f"mindport-{name}"
