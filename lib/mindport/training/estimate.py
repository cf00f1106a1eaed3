"""What a training will take, told before it begins: by formula, from the shapes.

Float32 is kept of every parameter four times: the weight, its gradient and AdamW's two means; once more where
gradients are added up, and three times more while a thread writes a checkpoint. What the backward pass needs of the
forward pass grows with rows and tokens. MindSpore's own share, about half a gigabyte, is not in it.

Of several processes all is told together, as where they share a machine: replicas have everything twice but their rows,
and add up their gradients; those that share a replica have most of it in parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mindport.config import ModelConfig, schema
from mindport.config.split import axes
from mindport.environment.system import available_memory
from mindport.measure.flops import step_flops
from mindport.training.config import TrainConfig

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Estimate:
    """In bytes and operations.

    Attributes:
        processes: that it is the sum of.
        parameters: numbers in the weights.
        weights: bytes of what is kept for each parameter.
        activations: bytes of what the backward pass needs, about.
        checkpoint: bytes of the copy that a thread writes from.
        free: bytes that this machine, or its container, has left; None where it does not say.
        step_flops: of one step, all passes of it.
    """

    processes: int
    parameters: int
    weights: int
    activations: int
    checkpoint: int
    free: int | None
    step_flops: float

    @property
    def bytes(self) -> int:
        return self.weights + self.activations + self.checkpoint

    @property
    def fits(self) -> bool:
        """Whether the machine has so much left, as far as is known."""
        return self.free is None or self.bytes <= self.free

    def text(self) -> str:
        """In one sentence."""
        parts = f"{_gb(self.weights)} for {self.parameters / 1e6:.1f} M parameters, {_gb(self.activations)} activations"
        parts += f", {_gb(self.checkpoint)} while a checkpoint is written" if self.checkpoint else ""
        free = "" if self.free is None else f"; {_gb(self.free)} are free"
        many = f" in {self.processes} processes, and half a gigabyte for each" if self.processes > 1 else ""
        doubt = "" if self.fits else ": MORE THAN THERE IS, take fewer rows, shorter ones, or recompute: true"
        return f"memory: about {_gb(self.bytes)}{many} ({parts}){free}{doubt}"

    def time(self, steps: int, peak: float | None) -> str:
        """The least that so many steps take at the machine's peak, GFLOP/s; empty where that is not known."""
        if not peak:
            return ""
        minutes, seconds = divmod(round(steps * self.step_flops / peak / 1e9), 60)
        return (f"time: at least {minutes}:{seconds:02} for {steps} steps of {self.step_flops:.2g} operations, at "
                f"this machine's {peak:.0f} GFLOP/s")  # fmt: skip


def estimate(config: TrainConfig, model: ModelConfig) -> Estimate:
    """What the training takes."""
    told, shapes = config.parallel, schema.shapes(model)
    sizes, split = {name: math.prod(shape) for name, shape in shapes.items()}, axes(model, told.tp)
    parameters = sum(sizes.values())
    copies = sum(size * told.dp * (1 if name in split else told.tp) for name, size in sizes.items())
    kept = 5 if config.batch.accumulate > 1 or told.dp > 1 else 4
    rows, tokens = config.batch.rows, config.data.tokens
    return Estimate(
        processes=told.dp * told.tp,
        parameters=parameters,
        weights=kept * FLOAT * copies,
        activations=FLOAT * rows * tokens * _numbers_of_a_token(config, model),
        checkpoint=3 * FLOAT * parameters if config.checkpoints.asynchronous else 0,
        free=available_memory(),
        step_flops=config.batch.accumulate * step_flops(model, rows, tokens),
    )


def _numbers_of_a_token(config: TrainConfig, model: ModelConfig) -> int:
    """What the backward pass needs of each: the inputs of products and norms in every layer, logits and their
    gradient; with recompute of one layer, and the inputs of all. What the ranks of a replica all have, each has."""
    width, heads = config.parallel.tp * model.hidden_size, model.num_attention_heads * model.head_dim
    inner = (3 if model.gated_mlp else 2) * model.intermediate_size
    layer = 4 * width + 2 * heads + 2 * model.num_key_value_heads * model.head_dim + inner
    layers = model.num_hidden_layers
    kept = layer + layers * width if config.recompute else layers * layer
    return kept + 2 * model.vocab_rows


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size < 1e10 else f"{size / 1e9:.0f} GB"
