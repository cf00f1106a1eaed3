"""What survives the end of a training's process: model, optimizer, randomness, place in the data.

    out/checkpoints/step-00000100/      a MindPort directory: loads, verifies, converts as any other
                        training.safetensors, training.json      what a resume needs besides
                    best.json           which one had the lowest held-out loss
    out/checkpoints/step-00000200/      of several processes, each with its own share
                        shard-00-of-02.safetensors, …            weights and state, cut as tensor parallelism cuts them
                        training.json                            where each array lies

Whatever the layout that wrote one, it is read whole, or the share that a process of any other layout needs; `gather`
makes the first form of the second. Nothing here imports a framework.
"""

from mindport.training.checkpoint.belongs import MAY_CHANGE, Run, check_belongs, check_course
from mindport.training.checkpoint.checkpoints import Checkpoints, Stall
from mindport.training.checkpoint.gather import GatherReport, gather
from mindport.training.checkpoint.read import Saved, read_checkpoint
from mindport.training.checkpoint.record import read_record
from mindport.training.checkpoint.shares import Share
from mindport.training.checkpoint.snapshot import About, Snapshot

__all__ = [
    "MAY_CHANGE", "About", "Checkpoints", "GatherReport", "Run", "Saved", "Share", "Snapshot", "Stall",
    "check_belongs", "check_course", "gather", "read_checkpoint", "read_record",
]  # fmt: skip
