"""Functions that the tests call on ranks."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import Any


def grid(dp: int, tp: int, other: int) -> dict[str, Any]:
    """Join as dp × tp, add ranks over both groups, and try what has to be refused."""
    import numpy as np
    from mindspore import Tensor, ops

    from mindport.errors import UsageError
    from mindport.parallel.join import join

    ranks = join(dp, tp)
    mine = Tensor(np.array([ranks.rank], np.float32))
    sums = {
        name: float(ops.AllReduce(group=group)(mine).asnumpy()[0]) if group else None
        for name, group in (("dp", ranks.dp_group), ("tp", ranks.tp_group))
    }
    try:
        join(other, 1)
        refused = ""
    except UsageError as error:
        refused = str(error)
    return {
        "ranks": asdict(ranks), "sums": sums, "again": join(dp, tp) is ranks, "refused": refused, "pid": os.getpid(),
        "threads": os.environ["OMP_NUM_THREADS"], "wait": os.environ["OMP_WAIT_POLICY"], "word": os.environ.get("WORD"),
        "argv": sys.argv[0], "sid": os.getsid(0),
    }  # fmt: skip


def echo(kind: str = "", **arguments: Any) -> Any:
    """Return what came, or fail in a way."""
    from mindport.errors import UsageError

    if kind == "refuse":
        raise UsageError("a rank's refusal", got=3, do="try 4")
    if kind == "break":
        raise RuntimeError("broken")
    if kind == "unsayable":
        return object()
    import numpy as np

    forked = "mindport.parallel.launch.nursery" in " ".join(sys.orig_argv)
    return {"rank": int(os.environ["RANK_ID"]), "got": arguments, "draw": float(np.random.rand()), "forked": forked}
