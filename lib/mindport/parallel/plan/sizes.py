"""What a model weighs and computes, from the schema: exact, by part, with what tensor parallelism splits.

A layer's matrices take 6 FLOPs per parameter and token, forward and backward; attention takes 12 · (heads · head_dim)
· keys. Every masked pair is counted, as the published utilisations (MFU) do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mindport.config import ModelConfig
from mindport.config.schema import parameters, shapes

PARTS = {"embed": "embedding", "position": "embedding", "blocks": "layer", "norm": "head", "head": "head"}


@dataclass(frozen=True)
class Part:
    """Parameters of an embedding, a layer or a head.

    Attributes:
        split: what tensor parallelism splits.
        whole: what every rank holds.
        tensors: how many of them there are: messages of an exchange that is not fused.
    """

    split: int = 0
    whole: int = 0
    tensors: int = 0

    @property
    def count(self) -> int:
        return self.split + self.whole


@dataclass(frozen=True)
class Sizes:
    """The model as the planner sees it.

    Attributes:
        embedding, layer, head: parameters by part; the head includes the last norm.
        tied: the head is the embedding; a pipeline's last stage then has a copy.
        matrices: matrix parameters of a layer.
        config: all the rest.
    """

    embedding: Part
    layer: Part
    head: Part
    tied: bool
    matrices: int
    config: ModelConfig

    @property
    def layers(self) -> int:
        return self.config.num_hidden_layers

    @property
    def parameters(self) -> int:
        return self.embedding.count + self.layers * self.layer.count + self.head.count

    @property
    def table(self) -> int:
        """Parameters of a head that is not tied, or of the copy of one that is."""
        return self.config.vocab_rows * self.config.hidden_size

    def keys(self, seq: int) -> float:
        """How many keys a query is held against, all layers' mean: a window looks no further."""
        windows = self.config.window or (None,)
        return sum(min(window or seq, seq) for window in windows) / len(windows)

    def attention_flops(self, seq: int) -> float:
        """Attention of one layer, a token, forward and backward."""
        return 12 * self.config.dims["q"] * self.keys(seq)

    def flops(self, seq: int) -> float:
        """Of a token, forward and backward, without recomputation: what MFU counts."""
        return self.layers * (6 * self.matrices + self.attention_flops(seq)) + 6 * self.table


def sizes(config: ModelConfig) -> Sizes:
    """Count a model by part; all layers are alike."""
    found = {"embedding": Part(), "layer": Part(), "head": Part()}
    matrices, dims = 0, shapes(one := config.with_layers(1))
    for name, param in parameters(one):
        count, key = math.prod(dims[name]), PARTS[name.split(".")[0]]
        part = found[key]
        split = count if param.tp is not None else 0
        found[key] = Part(part.split + split, part.whole + count - split, part.tensors + 1)
        matrices += count if key == "layer" and len(dims[name]) > 1 else 0
    return Sizes(found["embedding"], found["layer"], found["head"], config.tie_word_embeddings, matrices, config)
