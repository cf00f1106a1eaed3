"""Two trainings held against each other, rung by rung: NumPy only, neither framework is needed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from mindport.config import from_dict
from mindport.parity import metrics
from mindport.parity.limits import FLOAT32, Limits
from mindport.parity.recipe import SNAPSHOTS, read_recipe, real_tokens
from mindport.parity.steps import Kind, Mode, Quantity, Rung, StepRow, StepsReport, ValueRow, rung
from mindport.parity.trace import Trace

SMALL = 1e-2  # of the largest gradient of a layer: 1e-5 of that is where float32 ends
LEAST = 1e-3  # of the rate: a weight that moved less has not moved
ROUNDING = 0.5  # of how far a weight moved: where torch in float32 is so far from float64, it moved by rounding alone
USUAL = 0.75  # quantile of torch's own errors over the parameters: the least that is allowed for
KINDS: tuple[Kind, ...] = ("m", "v", "weight")


def compare_training(reference: Trace, ours: Trace, limits: Limits = FLOAT32) -> StepsReport:
    """Hold our training against the reference's.

    Raises:
        FileError: a trace lacks an array.
    """
    modes: dict[Mode, str] = ours.about["modes"]
    values = [row for mode, before in modes.items() for row in _values(mode, before, reference, ours, limits)]
    curve = [row for mode, before in modes.items() for row in _curve(mode, before, reference, ours, limits)]
    told, config = read_recipe(reference.about), from_dict(reference.about["model"])
    return StepsReport(
        rungs=tuple(_rungs(values, curve, reference["lr"])),
        values=tuple(values),
        curve=tuple(curve),
        steps=len(reference["loss"]),
        recipe=told.as_dict(),
        clipped=int((reference["norm"] > told.max_norm).sum()),
        batches=reference["batches"].shape,
        real_tokens=int(real_tokens(reference["labels"]).sum()),
        fed=reference.about["tokens"],
        entries=reference.about["entries"],
        loss_of_nothing=math.log(config.vocab_rows),
        device=ours.about["device"],
        seconds=ours.about["seconds"],
        limits=limits,
    )


def _values(mode: Mode, before: str, reference: Trace, ours: Trace, limits: Limits) -> Iterator[ValueRow]:
    """Every gradient, then both means and the weight after each snapshot.

    Torch's own error at one parameter is one draw of many: in a deep model it differs a hundredfold from one to the
    next, and so does ours, elsewhere. Where torch was lucky, its usual error stands in.
    """
    looks: list[tuple[Kind, int, str]] = [("grad", 0, "grad")]
    looks += [(kind, step, f"{kind}/{step}") for step in SNAPSHOTS for kind in KINDS]
    for kind, step, under in looks:
        scales = _scales(kind, under, reference)
        owns = {name: _own(kind, f"{under}/{name}", reference) / scale for name, scale in scales.items()}
        usual = float(np.quantile(list(owns.values()), USUAL)) if owns else 0.0
        for name, scale in scales.items():
            expected, got = (_seen(kind, side[f"{at}{under}/{name}"]) for side, at in ((reference, ""), (ours, before)))
            error, own = _apart(kind, got, expected) / scale, owns[name]
            limit = limits.for_gradient(max(own, usual))
            if kind == "weight" and own > ROUNDING:
                limit = max(limit, _furthest(step, reference) / scale)
            yield ValueRow(mode, kind, step, name, expected.shape, scale, error, own, limit)


def _own(kind: Kind, key: str, reference: Trace) -> float:
    """What float32 costs torch at one parameter."""
    return _apart(kind, _seen(kind, reference[key]), _seen(kind, _exact(reference, key)))


def _scales(kind: Kind, under: str, reference: Trace) -> dict[str, float]:
    """Parameter → what its errors are divided by.

    A gradient far smaller than the layer's largest is held to a hundredth of that one: the key's bias has none at all,
    since softmax does not see a constant, and what is left of it is rounding. A weight's error is held to how far the
    steps moved it: beside the weight itself a wrong step would look like nothing.
    """
    names = [name.removeprefix(f"{under}/") for name in reference.arrays if name.startswith(f"{under}/")]
    if kind == "weight":
        least = LEAST * read_recipe(reference.about).lr
        return {name: max(_apart(kind, reference[f"{under}/{name}"], reference[f"weight/0/{name}"]), least)
                for name in names}  # fmt: skip
    sizes = {name: metrics.largest(_seen(kind, reference[f"{under}/{name}"])) for name in names}
    layers: dict[str, float] = {}
    for name, size in sizes.items():
        layers[_layer(name)] = max(size, layers.get(_layer(name), metrics.TINY))
    return {name: max(size, SMALL * layers[_layer(name)]) for name, size in sizes.items()}


def _furthest(step: int, reference: Trace) -> float:
    """How far AdamW can move a weight in the first steps: by the rate in each. Where there is no gradient but rounding,
    no more can be asked than that."""
    return float(reference["lr"][:step].sum())


def _layer(name: str) -> str:
    """blocks.3 of blocks.3.attn.q.weight; nothing of a parameter outside the layers."""
    return ".".join(name.split(".")[:2]) if name.startswith("blocks.") else ""


def _seen(kind: Kind, x: np.ndarray) -> np.ndarray:
    """v as its root: it goes with the gradient as m does, and the same limits hold."""
    return np.sqrt(np.maximum(x, 0)) if kind == "v" else x


def _apart(kind: Kind, x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference; of weights the root mean square: where a gradient is nothing but rounding, AdamW makes
    a whole step of it, in a direction that no two implementations agree on."""
    if x.shape != y.shape:
        return math.inf
    if kind != "weight":
        return metrics.error(x, y)
    square = float(np.square(x.astype(np.float64) - y).mean())
    return math.sqrt(square) if math.isfinite(square) else math.inf


def _exact(reference: Trace, name: str) -> np.ndarray:
    exact = reference.exact(name)
    assert exact is not None  # the reference trains in float64 as well
    return exact


def _curve(mode: Mode, before: str, reference: Trace, ours: Trace, limits: Limits) -> Iterator[StepRow]:
    """Loss, norm and rate of each step; what float32 has cost torch so far is allowed for."""
    steps = len(ours[f"{before}loss"])
    scales: dict[Quantity, np.ndarray] = {
        "loss": np.ones(steps),
        "norm": np.maximum(reference["norm"][:steps], metrics.TINY),
        "lr": np.full(steps, read_recipe(reference.about).lr),
    }
    for name, scale in scales.items():
        expected, exact = reference[name][:steps].astype(np.float64), _exact(reference, name)[:steps]
        error = np.abs(ours[f"{before}{name}"] - expected) / scale
        error = np.where(np.isfinite(error), error, np.inf)
        own = np.maximum.accumulate(np.abs(expected - exact) / scale)
        allowed = (limits.for_step(name, each) for each in own)
        columns = zip(ours[f"{before}{name}"].tolist(), expected.tolist(), error.tolist(), own.tolist(), allowed,
                      strict=True)  # fmt: skip
        yield from (StepRow(mode, name, step, *row) for step, row in enumerate(columns))


def _rungs(values: Sequence[ValueRow], curve: Sequence[StepRow], rates: np.ndarray) -> Iterator[Rung]:
    """From the bottom to the top: what stands on a rung that is red is red because of it."""
    taken = Counter(row.mode for row in curve if row.quantity == "loss")
    every, modes = ", ".join(f"{n} steps in {mode} mode" for mode, n in taken.items()), " and ".join(taken)
    yield rung("loss of padded batches agrees at step 0", "only real tokens count",
               [row for row in curve if row.quantity == "loss" and row.step == 0])  # fmt: skip
    yield rung("gradients of the whole model agree", f"of the loss at step 0, every parameter, {modes}",
               [row for row in values if row.kind == "grad"])  # fmt: skip
    yield _course("learning rate agrees", every, "lr", curve)
    for step in SNAPSHOTS:
        if rows := [row for row in values if row.step == step]:
            name = "one optimizer step agrees" if step == 1 else f"{step} optimizer steps agree"
            moved = "" if rates[:step].any() else "; the rate is 0 and moves no weight: this shows m and v only"
            yield rung(name, f"m, v and weight of every parameter, {modes}{moved}", rows)
    yield _course("norm of the gradients agrees", every, "norm", curve)
    yield _course("loss agrees", every, "loss", curve)


def _course(name: str, how: str, quantity: Quantity, curve: Sequence[StepRow]) -> Rung:
    return rung(name, how, [row for row in curve if row.quantity == quantity])
