"""What one process of several holds of a training, and what of that it writes.

Processes with the same `tp` share hold the same: those of the first replica write. What is not cut is written by the
first process alone.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from mindport.config import ModelConfig, schema, split
from mindport.errors import UsageError, some
from mindport.ranks import Ranks
from mindport.training.checkpoint import boxes
from mindport.training.checkpoint.arrays import check_names, copied, take_state
from mindport.training.checkpoint.boxes import Box
from mindport.training.checkpoint.pieces import Held
from mindport.training.checkpoint.record import as_json, measured
from mindport.training.checkpoint.snapshot import Snapshot
from mindport.training.checkpoint.write import Taken
from mindport.weights.dtypes import code_of
from mindport.weights.store import SHARD

MEANS = ("adam.m.", "adam.v.")  # of a weight each, and cut as it is
PATIENCE = 300.0


@dataclass(frozen=True, kw_only=True)
class Share(Ranks):
    """One process's part in the checkpoints of a training.

    Attributes:
        job: a word that is the same in all processes of this training and in no other's, so that one which outlived
            its training writes nowhere.
        patience: seconds that the first process waits for the others when it has written its own.
    """

    job: str
    patience: float = PATIENCE

    @property
    def file(self) -> str:
        """The file that this process writes."""
        return f"{SHARD}{self.rank:02d}-of-{self.tp:02d}.safetensors"

    @property
    def layout(self) -> str:
        return f"dp{self.dp},tp{self.tp}"


def weight_of(name: str) -> str:
    """The weight that an array belongs to, by which it is cut: `adam.m.norm.weight` → `norm.weight`."""
    prefix = next((prefix for prefix in MEANS if name.startswith(prefix)), "")
    return name.removeprefix(prefix)


def cut(name: str, model: ModelConfig, ranks: Ranks) -> Box | None:
    """The part that a process has of an array of a training; None where each has all of it.

    Args:
        name: of a weight, or of an array of the state.
        model: whose weights these are.
        ranks: which process.
    """
    weight = weight_of(name)
    return split.part(weight, model, ranks) if weight in _axes(model, ranks.tp) else None


_axes = functools.lru_cache(4)(split.axes)  # asked for each array
_shapes = functools.lru_cache(4)(schema.shapes)


def take_share(
    snapshot: Snapshot, loss: float | None, model: ModelConfig, share: Share
) -> tuple[Taken, dict[str, Held]]:
    """Copies of what this process writes, and where it belongs.

    Raises:
        UsageError: the snapshot is not this model's share, or cannot be stored.
    """
    shapes = _shapes(model)
    check_names(snapshot.weights, shapes)
    if both := sorted(shapes.keys() & snapshot.state.keys()):
        raise UsageError("arrays of the state have names of weights", got=some(both), expected="other names")
    weights = {name: copied(snapshot.weights[name]) for name in shapes if _writes(share, name, model)}
    state = take_state({name: snapshot.state[name] for name in snapshot.state if _writes(share, name, model)})
    held = {name: _held(name, x, model, share) for name, x in {**weights, **state}.items()}
    if wrong := [f"{name} {x.dtype}" for name, x in weights.items() if x.dtype != np.float32]:
        raise UsageError("weights of the snapshot have another precision", got=some(wrong), expected="float32")
    return Taken(snapshot.step, measured(loss), weights, state, as_json(snapshot.about)), held


def _writes(share: Share, name: str, model: ModelConfig) -> bool:
    return share.is_first or (share.rank < share.tp and cut(name, model, share) is not None)


def _held(name: str, x: np.ndarray, model: ModelConfig, share: Share) -> Held:
    shape = _shapes(model).get(weight_of(name), x.shape)
    box = cut(name, model, share) or boxes.whole(shape)
    if x.shape != boxes.shape_of(box):
        raise UsageError("an array of the snapshot is not this process's share", where=f"{name}, rank {share.rank}",
                         got=list(x.shape), expected=f"{list(boxes.shape_of(box))} of {list(shape)}")  # fmt: skip
    return Held(code_of(x), shape, {share.file: box})
