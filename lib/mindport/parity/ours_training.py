"""Our training on the reference's batches, by its recipe: the same arrays as in `reference_training`.

Graph mode takes all steps; PyNative mode takes those after which the optimizer is looked at, under `pynative/…`.
`about["modes"]` says which mode is under which name. PyNative mode also keeps the `logits` of the first batch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor

from mindport.model import GPT, NextTokenLoss, load_model
from mindport.parity.ours import Say, clock, modes
from mindport.parity.recipe import KEPT, SNAPSHOTS, Recipe, looked_at, own_labels, read_recipe
from mindport.parity.steps import Mode
from mindport.parity.trace import Trace
from mindport.training import AdamW, Cosine, TrainStep

MODES: dict[Mode, int] = {"PyNative": ms.PYNATIVE_MODE, "Graph": ms.GRAPH_MODE}
Build = Callable[[GPT, Recipe], TrainStep]


def training_step(model: GPT, told: Recipe) -> TrainStep:
    """The step that the recipe describes."""
    optimizer = AdamW(
        model.trainable_params(), betas=told.betas, eps=told.eps, weight_decay=told.weight_decay,
        decays=lambda weight: weight.name not in told.no_decay,
    )  # fmt: skip
    schedule = Cosine(told.lr, total=told.total_steps, warmup=told.warmup_steps)
    return TrainStep(model, NextTokenLoss(model), optimizer, schedule, told.max_norm)


def observe_training(
    directory: Path, reference: Trace, *, build: Build = training_step, only: Mode | None = None,
    say: Say = lambda phase: None,
) -> Trace:  # fmt: skip
    """Train the converted model of `directory` as the reference was trained.

    Args:
        directory: a MindPort directory.
        reference: the reference's trace; its layers are kept, its batches and its recipe are taken.
        build: makes the training step of a model.
        only: the mode that takes all steps, with none beside it.
        say: is told each phase as it begins.
    """
    seconds: dict[str, float] = {}
    steps = len(reference["batches"])
    runs: list[tuple[Mode, str, int]] = [("PyNative", "pynative/", min(steps, max(SNAPSHOTS))), ("Graph", "", steps)]
    runs = [(only, "", steps)] if only else runs
    trace = Trace({
        "made_by": "mindport.training.TrainStep, float32", "device": ms.get_context("device_target"),
        "versions": {"mindspore": ms.__version__}, "seconds": seconds,
        "modes": {mode: under for mode, under, _ in runs},
    })  # fmt: skip
    with modes() as switch, clock(seconds, say) as phase:
        for mode, under, count in runs:
            phase(f"{mode}, training, {count} steps")
            switch(MODES[mode])
            _train(directory, reference, build, count, trace, under)
    return trace


def _train(directory: Path, reference: Trace, build: Build, steps: int, trace: Trace, under: str) -> None:
    """So many steps of a fresh model; keeps what it sees under `under`."""
    model = load_model(directory, layers=reference.about["model"]["num_hidden_layers"])
    step = build(model, read_recipe(reference.about))
    step.set_train(False)  # no dropout; whatever has a gradient keeps it
    optimizer, most, curve = step.optimizer, reference.about["entries"], []

    def keep(what: str, values: tuple[Tensor, ...]) -> None:
        for weight, value in zip(optimizer.weights, values, strict=True):
            trace.add(f"{under}{what}/{weight.name}", looked_at(weight.name, value.asnumpy(), most))

    keep("weight/0", optimizer.weights)
    batches = zip(reference["batches"][:steps], own_labels(reference["labels"][:steps]), strict=True)
    for index, batch in enumerate(batches, 1):
        ids, labels = map(Tensor, batch)
        if index == 1 and ms.get_context("mode") == ms.PYNATIVE_MODE:  # in Graph mode that is another graph to compile
            trace.add(f"{under}logits", model(ids).asnumpy())
        if index == 1:
            keep("grad", step.loss_and_gradients(ids, labels)[1])
        curve.append([value.asnumpy().item() for value in step(ids, labels)])
        if index in KEPT:
            keep(f"weight/{index}", optimizer.weights)
            keep(f"m/{index}", optimizer.m)
            keep(f"v/{index}", optimizer.v)
    for name, values in zip(("loss", "norm", "lr"), np.array(curve, np.float32).T, strict=True):
        trace.add(f"{under}{name}", values)
