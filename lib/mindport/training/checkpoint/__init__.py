"""What survives the end of a training's process: model, optimizer, randomness, place in the data.

    out/checkpoints/step-00000100/      a MindPort directory: loads, verifies, converts as any other
                        training.safetensors, training.json      what a resume needs besides
                    best.json           which one had the lowest held-out loss

Nothing here imports a framework.
"""

from mindport.training.checkpoint.belongs import MAY_CHANGE, Run, check_belongs, check_course
from mindport.training.checkpoint.checkpoints import Checkpoints, Stall
from mindport.training.checkpoint.read import Saved, read_checkpoint
from mindport.training.checkpoint.record import read_record
from mindport.training.checkpoint.snapshot import About, Snapshot

__all__ = [
    "MAY_CHANGE", "About", "Checkpoints", "Run", "Saved", "Snapshot", "Stall", "check_belongs", "check_course",
    "read_checkpoint", "read_record",
]  # fmt: skip
