"""Ours, as contestants: the attention kernel, a block, and the whole training step as one Cell.

Everything runs in Graph mode unless the settings say otherwise. A call ends when all of it is computed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from mindport.config import ModelConfig, from_dict
from mindport.model import GPT, NextTokenLoss, kernels
from mindport.model.gpt import Block, Rotary
from mindport.model.parameters import Parameters
from mindport.training import AdamW, Constant, TrainStep
from mindport.tuning import shapes
from mindport.tuning.contestant import Built
from mindport.tuning.variants import VARIANTS

MODES = {"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE, "jit": ms.PYNATIVE_MODE}


def attention(
    *, heads: int, kv_heads: int, head_dim: int, tokens: int, backward: bool, batch: int = 1, scale: float | None = None
) -> Built:
    """Causal attention, forward, or its gradients; scale: of the scores, 1 / √D when absent."""
    ms.set_context(mode=ms.GRAPH_MODE)
    kernel = kernels.attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, scale=scale or head_dim**-0.5,
                               dropout=0.0, dtype="float32")  # fmt: skip
    sizes = {"q": heads, "k": kv_heads, "v": kv_heads, "dy": heads}
    q, k, v, dy = (Tensor(shapes.normal(x, (batch, tokens, size, head_dim))) for x, size in sizes.items())
    cell, inputs, names = (Gradients(kernel), (q, k, v, dy), ("dq", "dk", "dv")) if backward else (
        kernel, (q, k, v), ("y",))  # fmt: skip
    found: dict[str, Tensor] = {}

    def run() -> None:
        outputs = cell(*inputs)
        found.update(zip(names, outputs if backward else (outputs,), strict=True))
        finish(outputs)

    return Built(run, lambda: {name: value.asnumpy() for name, value in found.items()}, _about())


def layer(*, config: dict[str, Any], batch: int, tokens: int) -> Built:
    """One block, forward and backward; gradients of its input and of every parameter."""
    ms.set_context(mode=ms.GRAPH_MODE)
    model = from_dict(config)
    block = Layer(model, tokens)
    gradients = Gradients(block, block.trainable_params())
    shape = (batch, tokens, model.hidden_size)
    x, dy = (Tensor(shapes.normal(name, shape)) for name in ("x", "dy"))
    found: dict[str, Any] = {}

    def run() -> None:
        (found["dx"],), found["parameters"] = gradients(x, dy)
        finish((found["dx"], *found["parameters"]))

    def values() -> dict[str, np.ndarray]:
        named = zip(block.trainable_params(), found["parameters"], strict=True)
        by_name = {f"d blocks.0.{parameter.name}": value.asnumpy() for parameter, value in named}
        return {"y": block(x).asnumpy(), "dx": found["dx"].asnumpy(), **by_name}

    return Built(run, values, _about())


def step(
    *, config: dict[str, Any], batch: int, tokens: int, mode: str = "graph", overrides: Sequence[str] = (),
    variants: Sequence[str] = (), tuned: bool = False,
) -> Built:  # fmt: skip
    """A training step of the whole model.

    Args:
        config, batch, tokens: the workload.
        mode: "graph"; "pynative"; or "jit", a compiled function called from PyNative.
        overrides: kernels that take their reference path.
        variants: names of other formulations, of `variants.VARIANTS`.
        tuned: rows of fine-tuning, whose prompts and padding do not count.
    """
    ms.set_context(mode=MODES[mode])
    model = from_dict(config)
    with contextlib.ExitStack() as forced:
        for kernel in overrides:
            forced.enter_context(kernels.override(kernel, "reference"))
        train = _train_step(model, variants)
    rows = shapes.batch(batch, tokens, model.vocab_size)
    ids, labels = Tensor(rows), Tensor(shapes.labels(rows, tuned))
    call = _jitted(train) if mode == "jit" else train
    losses: list[float] = []

    def run() -> None:
        loss, *_ = call(ids, labels)
        losses.append(float(loss.asnumpy()))
        finish(train.trainable_params()[-1:])

    return Built(run, lambda: shapes.losses(losses), _about())


class Gradients(nn.Cell):
    """(*inputs, gradient of the output) → gradients of the inputs, and of the parameters when there are some."""

    def __init__(self, cell: nn.Cell, parameters: Sequence[ms.Parameter] = ()) -> None:
        super().__init__(auto_prefix=False)
        self.cell, self.has_parameters = cell, bool(parameters)
        self.parameters = ms.ParameterTuple(parameters)
        self.gradient = ops.GradOperation(get_all=True, get_by_list=self.has_parameters, sens_param=True)

    def construct(self, *inputs: Tensor) -> Any:
        if self.has_parameters:
            return self.gradient(self.cell, self.parameters)(*inputs)
        return self.gradient(self.cell)(*inputs)


class Layer(nn.Cell):
    """A block with its positions, which are constants: (B, T, d) → (B, T, d)."""

    def __init__(self, config: ModelConfig, tokens: int) -> None:
        super().__init__(auto_prefix=False)
        self.block = Block(config, 0, Parameters(config, shapes.weight) / "blocks" / 0)
        self.cos, self.sin = None, None
        if config.rope is not None:
            self.cos, self.sin = Rotary(config)(Tensor(np.arange(tokens, dtype=np.int32)[None]), tokens)

    def construct(self, x: Tensor) -> Tensor:
        return self.block(x, self.cos, self.sin)


def _train_step(config: ModelConfig, variants: Sequence[str]) -> TrainStep:
    model = GPT(config, shapes.weight)
    loss = NextTokenLoss(model)
    for variant in variants:
        VARIANTS[variant](loss)
    return training_step(model, loss)


def training_step(model: GPT, loss: NextTokenLoss) -> TrainStep:
    """The step that every contestant takes, with the optimizer and the settings of `shapes`."""
    optimizer = AdamW(model.trainable_params(), betas=shapes.BETAS, eps=shapes.EPSILON,
                      weight_decay=shapes.WEIGHT_DECAY)  # fmt: skip
    return TrainStep(model, loss, optimizer, Constant(shapes.LEARNING_RATE), max_norm=shapes.MAX_NORM)


def finish(tensors: Any) -> None:
    """Wait until these are computed; their memory is shared, not copied."""
    for tensor in tensors if isinstance(tensors, (tuple, list)) else (tensors,):
        tensor.asnumpy()


def _jitted(train: nn.Cell) -> Any:
    def call(ids: Tensor, labels: Tensor) -> Tensor:
        return train(ids, labels)

    return ms.jit(call)


def _about() -> dict[str, Any]:
    chosen = [[choice.kernel, choice.path, choice.reason] for choice in kernels.choices()]
    return {"threads": int(os.environ.get("OMP_NUM_THREADS", 0)), "kernels": chosen}
