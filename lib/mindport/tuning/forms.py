"""One training step in many forms: the contestants of the ladder and of the studies beside it.

`step` is called by `worker` in a process of its own; see contestant.py. Every form has the same parameters, tokens
and optimizer, so that the losses of the first steps and the first gradients must agree.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor

from mindport.config import ModelConfig, from_dict
from mindport.errors import BackendError
from mindport.model import GPT, NextTokenLoss, kernels
from mindport.model.execution import MODES
from mindport.model.kernels.attention import Reference
from mindport.training import AccumulatedStep, AdamW, TrainStep
from mindport.training.clip import EPS
from mindport.tuning import shapes
from mindport.tuning.contestant import Built
from mindport.tuning.ours import training_step
from mindport.tuning.study import KERNELS

NO_GRADIENT = "attn.k.bias"
TIED = ("head.weight", "embed.weight")
SAMPLE = 4096  # values of each gradient that are kept for the comparison
MASK, ACTIVATION = "no mask", "another activation"  # faults that can be planted
Step = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]  # ids, labels → loss, norm, learning rate
ANOTHER = {"gelu": "gelu_tanh", "gelu_tanh": "gelu", "silu": "relu", "relu": "silu"}


def step(
    config: dict[str, Any], batch: int, tokens: int, *, mode: str = "graph", fast: Sequence[str] = KERNELS,
    needs: Sequence[str] = (), recompute: bool = False, pieces: int = 1, amp: str = "", fault: str = "",
) -> Built:  # fmt: skip
    """A training step.

    Args:
        config, batch, tokens: the workload.
        mode: "graph" (the whole step is compiled) or "pynative" (operator by operator).
        fast: kernels that may take the best path here; the others are made of plain operators.
        needs: kernels, one of which must have taken a faster path than plain operators.
        recompute: blocks are computed again in the backward pass, in place of kept.
        pieces: parts that the batch is cut into, their gradients added up.
        amp: level of MindSpore's automatic mixed precision; "" for none.
        fault: `MASK` or `ACTIVATION` plants one, "" does not.

    Raises:
        BackendError: none of `needs` has a faster path here; why.
    """
    ms.set_context(mode=MODES[mode])
    fast = [kernel for kernel in fast if not (fault == MASK and kernel == "attention")]
    with _plain(fast):
        whole = _build(_changed(from_dict(config), fault), recompute, amp)
    check_paths(needs, kernels.choices())
    if fault == MASK:
        _unmask(whole)
    call = whole if pieces == 1 else _in_pieces(whole, pieces)
    return _built(call, whole.optimizer, Tensor(shapes.batch(batch, tokens, config["vocab_size"])))


def _build(config: ModelConfig, recompute: bool, amp: str) -> TrainStep:
    model = GPT(config, shapes.weight)
    if recompute:
        for block in model.blocks:
            block.recompute()
    loss = NextTokenLoss(model)
    if amp:
        loss.model = ms.amp.auto_mixed_precision(model, amp)
    return training_step(model, loss)


def _in_pieces(whole: TrainStep, pieces: int) -> Step:
    """`whole` on a batch that is cut into this many equal parts."""
    accumulated = AccumulatedStep(whole)

    def call(ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size = ids.shape[0] // pieces
        parts = [slice(i * size, (i + 1) * size) for i in range(pieces)]
        return accumulated((ids[part], labels[part]) for part in parts)

    return call


def _built(call: Step, optimizer: AdamW, ids: Tensor) -> Built:
    """The step on one batch, run once; the losses of the first calls and the first gradients are its values."""
    losses: list[float] = []

    def run() -> tuple[float, float]:
        loss, norm, _ = call(ids, ids)
        losses.append(float(loss.asnumpy()))
        optimizer.m[-1].asnumpy()  # the last one to be written
        return losses[-1], float(norm.asnumpy())

    start = time.perf_counter()
    _, norm = run()
    first, gradients = time.perf_counter() - start, _gradients(optimizer, norm)
    about = {"first seconds": first, "kernels": [[c.kernel, c.path, c.reason] for c in kernels.choices()]}
    return Built(run, lambda: {**shapes.losses(losses[:-1]), **gradients}, about)  # the others took a step less


def _gradients(optimizer: AdamW, norm: float) -> dict[str, np.ndarray]:
    """A sample of each gradient of the first step: what Adam keeps of one gradient is (1 − β1) times it, clipped.

    The bias of k has none, since softmax ignores a constant: what is left of it is rounding, and is not compared.
    The tied head and embedding are one parameter; mixed precision calls it by the other of its names.
    """
    kept = (1 - shapes.BETAS[0]) * min(1.0, shapes.MAX_NORM / (norm + EPS))
    pairs = zip(optimizer.weights, optimizer.m, strict=True)
    return {f"gradient of {weight.name.replace(*TIED)}": _sample(mean.asnumpy()) / kept
            for weight, mean in pairs if not weight.name.endswith(NO_GRADIENT)}  # fmt: skip


def _sample(values: np.ndarray) -> np.ndarray:
    """Every n-th value, so that about `SAMPLE` of them remain."""
    return values.reshape(-1)[:: max(1, values.size // SAMPLE)].copy()


@contextlib.contextmanager
def _plain(fast: Sequence[str]) -> Iterator[None]:
    """All kernels but `fast` are made of plain operators."""
    with contextlib.ExitStack() as stack:
        for kernel in KERNELS:
            if kernel not in fast:
                stack.enter_context(kernels.override(kernel, "reference"))
        yield


def check_paths(needs: Sequence[str], choices: Sequence[kernels.Choice]) -> None:
    """Stop when none of the kernels that a form is about is computed any faster here.

    Raises:
        BackendError: the reasons, one a kernel.
    """
    chosen = [choice for choice in choices if choice.kernel in needs]
    if needs and all(choice.path == "reference" for choice in chosen):
        why = "; ".join(f"{choice.kernel}, {choice.reason}" for choice in chosen)
        raise BackendError(why or f"this model has no {' or '.join(needs)} to replace")


def _changed(config: ModelConfig, fault: str) -> ModelConfig:
    return replace(config, hidden_act=ANOTHER[config.hidden_act]) if fault == ACTIVATION else config


class Unmasked(Reference):
    """Attention in which every query sees every key."""

    def mask(self, copies: int, t: int, s: int, offset: Any) -> Tensor:
        return self.tile(self.zero.reshape((1, 1, 1)), (copies, t, s))


def _unmask(whole: TrainStep) -> None:
    for _, cell in whole.loss.cells_and_names():
        if type(cell) is Reference:
            cell.__class__ = Unmasked  # it has the same settings
