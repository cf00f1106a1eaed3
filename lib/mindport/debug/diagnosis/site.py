"""One wrong value, and everything that is known where it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mindport.config import from_dict
from mindport.config.locate import is_reachable
from mindport.config.model_config import ModelConfig
from mindport.debug.diagnosis import cells
from mindport.debug.diagnosis.cause import Evidence
from mindport.debug.diagnosis.cells import Array, Attending, attending
from mindport.files import sha256
from mindport.parity.rows import Row
from mindport.parity.taps import LOGITS
from mindport.parity.trace import Trace
from mindport.weights.manifest import read_manifest

KINDS = {
    "embed": "table",
    "position": "table",
    "norm": "norm",
    "norm1": "norm",
    "norm2": "norm",
    "attn.q_norm": "norm",
    "attn.k_norm": "norm",
    "attn.context": "context",
    "mlp.hidden": "hidden",
    "attn": "part",
    "mlp": "part",
    "": "block",
}  # fmt: skip; whatever is not here is a linear map


@dataclass(frozen=True)
class Site:
    """A value of the forward pass that is wrong.

    Attributes:
        evidence: both traces.
        row: the comparison of the value.
        inherited: every cell alone is right: what is wrong is the value in the whole model.
        weights: the right ones, by the hub's names; none where neither the source nor our directory is at hand.
    """

    evidence: Evidence
    row: Row
    inherited: bool
    weights: Mapping[str, Array]

    @property
    def path(self) -> str:
        return self.row.path

    @property
    def layer(self) -> int | None:
        parts = self.path.split(".")
        return int(parts[1]) if parts[0] == "blocks" else None

    @property
    def part(self) -> str:
        """The name within the layer; of a layer itself, nothing."""
        return self.path if self.layer is None else self.path[len(f"blocks.{self.layer}.") :]

    @property
    def kind(self) -> str:
        """table, norm, linear, context, hidden, part or block."""
        return KINDS.get(self.part, "linear")

    @property
    def is_known(self) -> bool:
        """Whether the parameters that make the value are at hand; an activation has none, nor has most attention."""
        return bool(self.weights) or self.kind == "hidden" or (self.kind == "context" and not self.config.qk_norm)

    @property
    def limit(self) -> float:
        return self.row.limit

    @cached_property
    def config(self) -> ModelConfig:
        return from_dict(self._reference.about["model"])

    @cached_property
    def x(self) -> Array:
        """What the module is given."""
        x = self._reference[f"in/{self.path}"]
        return x if x.dtype.kind == "i" else x.astype(np.float64)

    @cached_property
    def right(self) -> Array:
        return self.reference(self.path)

    @cached_property
    def ours(self) -> Array:
        assert self.evidence.ours is not None
        return self.evidence.ours[("out/" if self.inherited else "local/") + self.path].astype(np.float64)

    @property
    def _reference(self) -> Trace:
        assert self.evidence.reference is not None
        return self.evidence.reference

    @property
    def order(self) -> list[str]:
        """Every value that the reference made."""
        return self._reference.about["order"]

    def reference(self, path: str) -> Array:
        """The reference's value at another place."""
        return self._reference[f"out/{path}"].astype(np.float64)

    def at(self, row: Row) -> Site:
        """Another wrong value of the same run."""
        return replace(self, row=row)

    def sibling(self, part: str) -> str:
        """The path of another part of the same layer."""
        return part if self.layer is None else f"blocks.{self.layer}.{part}"

    @property
    def cell(self) -> str:
        """Our cell, by the name of its parameters; a tied head has the embedding's."""
        return ("embed" if self.config.tie_word_embeddings else "head") if self.path == LOGITS else self.path

    def weight(self, cell: str | None = None) -> Array:
        return self.weights[f"{self.cell if cell is None else cell}.weight"].astype(np.float64)

    def bias(self, cell: str | None = None) -> Array | None:
        name = f"{self.cell if cell is None else cell}.bias"
        return self.weights[name].astype(np.float64) if name in self.weights else None

    def made_by(self, weight: Array, bias: Array | None = None, x: Array | None = None) -> Array:
        """What a table, norm or linear map makes of its input with these parameters."""
        x = self.x if x is None else x
        if self.kind == "table":
            scale = np.float32(self.config.embedding_scale) if self.path == "embed" else 1.0
            return weight[x] * scale
        if self.kind == "norm":
            return self.normalised(x) * (weight + self.config.norm_offset) + (0.0 if bias is None else bias)
        return cells.linear(x, weight, bias)

    def normalised(self, x: Array, **how: object) -> Array:
        """A norm of this model, without its parameters; `how` as in `cells.normalise`."""
        usual = {"eps": self.config.norm_eps, "centred": self.config.norm == "layer"}
        return cells.normalise(x, **(usual | how))  # type: ignore[arg-type]

    def norm(self, cell: str) -> Callable[[Array], Array]:
        """A norm of this model."""
        weight, bias = self.weight(cell) + self.config.norm_offset, self.bias(cell)
        return lambda x: self.normalised(x) * weight + (0.0 if bias is None else bias)

    def linear(self, cell: str) -> Callable[[Array], Array]:
        """A linear map of this model."""
        weight, bias = self.weight(cell), self.bias(cell)
        return lambda x: cells.linear(x, weight, bias)

    @cached_property
    def attending(self) -> Attending:
        """How this layer should attend."""
        norms = [self.norm(self.sibling(f"attn.{x}_norm")) for x in "qk"] if self.config.qk_norm else []
        return attending(self.config, self.layer or 0, tuple(norms))

    @property
    def qkv(self) -> tuple[Array, Array, Array]:
        """What the reference's projections made."""
        q, k, v = (self.reference(self.sibling(f"attn.{x}")) for x in "qkv")
        return q, k, v

    def attention(self) -> Callable[[Array], Array]:
        """The whole attention of this layer."""
        q, k, v, o = (self.linear(self.sibling(f"attn.{x}")) for x in "qkvo")
        return lambda x: o(self.attending(q(x), k(x), v(x)))

    def mlp(self) -> Callable[[Array], Array]:
        """The whole MLP of this layer."""
        up, down = (self.linear(self.sibling(f"mlp.{x}")) for x in ("up", "down"))
        act = cells.ACTIVATIONS[self.config.hidden_act]
        if not self.config.gated_mlp:
            return lambda x: down(act(up(x)))
        gate = self.linear(self.sibling("mlp.gate"))
        return lambda x: down(act(gate(x)) * up(x))


def weights_of(evidence: Evidence) -> Mapping[str, Array]:
    """The right weights: the source's own; failing that, our directory's, which are right if the fault is elsewhere."""
    from mindport.weights import load
    from mindport.weights.digests import expected

    assert evidence.reference is not None
    source = Path(evidence.reference.about["source"]["path"])
    manifest = read_manifest(evidence.directory) if evidence.directory else None
    if _is_there(source, evidence.reference.about["source"]["config"]):
        allow, padded = (manifest.allowed, manifest.model.padded_vocab) if manifest else ((), None)
        return expected(source, allow=allow, padded_vocab=padded)
    return load(evidence.directory, check=False) if evidence.directory else {}


def tried(evidence: Evidence) -> Mapping[str, Array]:
    """The weights that were run."""
    from mindport.weights import load

    return load(evidence.directory, check=False) if evidence.directory else {}


def _is_there(source: Path, digest: str) -> bool:
    """Whether the directory that a trace names is here, and not another one under the same name."""
    file = source / "config.json"
    return is_reachable(source) and file.is_file() and sha256(file) == digest
