"""The training traces of both sides, and the arithmetic that every hypothesis uses; float64 throughout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mindport.config import from_dict
from mindport.config.schema import shapes
from mindport.parity.recipe import Recipe, looked_at, read_recipe
from mindport.parity.trace import Trace

SCALAR = 1e-5  # relative: losses, norms and rates of two right float32 implementations are nearer than that
SAME = 1e-4  # of a gradient's largest value: the same for gradients of a whole model
OWN = 8.0  # times torch's own error is always allowed
ROUNDING = 4e-6  # relative: one number made twice from the same float32 numbers
AUDIBLE = 1e-3  # of the largest gradient: what is smaller may be rounding alone, as the key's bias is
TINY = 1e-30
TABLE = "embed.weight"


@dataclass(frozen=True)
class Steps:
    """Two training traces.

    Attributes:
        reference: torch's.
        ours: ours, with the logits of its first batch.
        again: a second run of ours, when there is one.
        mode: what stands before the names of our arrays, "" for Graph mode.
    """

    reference: Trace
    ours: Trace
    again: Trace | None = None
    mode: str = ""

    @cached_property
    def recipe(self) -> Recipe:
        return read_recipe(self.reference.about)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parameters, in the order of the model."""
        return tuple(name.removeprefix("grad/") for name in self.reference.arrays if name.startswith("grad/"))

    @cached_property
    def loudest(self) -> float:
        """The largest value of all gradients."""
        return max(largest(self.right(f"grad/{name}")) for name in self.names)

    @cached_property
    def audible(self) -> tuple[str, ...]:
        """The parameters whose gradient is more than rounding."""
        return tuple(name for name in self.names if largest(self.right(f"grad/{name}")) > AUDIBLE * self.loudest)

    @cached_property
    def rows_of_table(self) -> np.ndarray:
        """The token of each number that the traces show of the embedding."""
        rows, width = shapes(from_dict(self.reference.about["model"]))[TABLE]
        return looked_at(TABLE, np.arange(rows * width), self.reference.about["entries"]) // width

    @cached_property
    def logits(self) -> np.ndarray | None:
        """Ours of the first batch (B, T, V), whichever mode kept them."""
        kept = [f"{mode}logits" for mode in ("", *self.ours.about["modes"].values()) if f"{mode}logits" in self.ours]
        return self.ours[kept[0]].astype(np.float64) if kept else None

    def allowed(self, name: str, least: float) -> float:
        """The relative error that an array may have: `least`, or a multiple of what float32 cost torch itself."""
        exact = self.reference.exact(name)
        return least if exact is None else max(least, OWN * apart(self.right(name), exact))

    def has(self, name: str) -> bool:
        """Whether our run shows this array."""
        return f"{self.mode}{name}" in self.ours

    def mine(self, name: str) -> np.ndarray:
        """An array of ours."""
        return self.ours[f"{self.mode}{name}"].astype(np.float64)

    def right(self, name: str) -> np.ndarray:
        """The same of the reference."""
        return self.reference[name].astype(np.float64)

    def clip(self, t: int) -> float:
        """What the recipe multiplies the gradients of our step t with, counted from 1."""
        return clip_factor(self.recipe.max_norm, float(self.mine("norm")[t - 1]))


@dataclass(frozen=True)
class Update:
    """One parameter in one step of ours.

    Attributes:
        name: the parameter.
        t: the step, counted from 1.
        before, after: the parameter.
        m, v: the means as the step left them.
        curve: the rates that all steps reported.
        clip: what the gradients of this step are multiplied with.
        recipe: how it should be done.
    """

    name: str
    t: int
    before: np.ndarray
    after: np.ndarray
    m: np.ndarray
    v: np.ndarray
    curve: np.ndarray
    clip: float
    recipe: Recipe

    @property
    def lr(self) -> float:
        """The rate that the step reported."""
        return float(self.curve[self.t - 1])

    @property
    def decay(self) -> float:
        """What the recipe gives this parameter."""
        return 0.0 if self.name in self.recipe.no_decay else self.recipe.weight_decay

    def corrections(self, t: int) -> tuple[float, float]:
        """1 − βᵗ of both means."""
        one, two = self.recipe.betas
        return 1 - one**t, 1 - two**t

    def distance(self, predicted: np.ndarray) -> float:
        """How far our parameter is from `predicted`, in units of what float32 rounds: up to about 1 is equal."""
        rounded = 2.0**-23 * np.maximum(np.abs(self.before), np.abs(self.after))
        return largest((self.after - predicted) / (rounded + ROUNDING * np.abs(predicted - self.before) + TINY))


def updates(steps: Steps) -> Iterator[Update]:
    """Every parameter in every step that the trace of ours shows from both ends."""
    curve = steps.mine("lr")
    for t in range(1, len(curve) + 1):
        for name in steps.names:
            wanted = [f"weight/{t - 1}/{name}", f"weight/{t}/{name}", f"m/{t}/{name}", f"v/{t}/{name}"]
            if all(steps.has(array) for array in wanted):
                yield Update(name, t, *map(steps.mine, wanted), curve, steps.clip(t), steps.recipe)


def largest(x: np.ndarray) -> float:
    """The largest absolute value; infinity when something is not finite."""
    return float(np.abs(x).max(initial=0.0)) if np.isfinite(x).all() else float("inf")


def apart(ours: np.ndarray | float, expected: np.ndarray | float) -> float:
    """The largest difference over the largest expected value."""
    expected = np.asarray(expected, np.float64)
    return largest(np.asarray(ours, np.float64) - expected) / max(largest(expected), TINY)


def multiple(ours: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """The number k for which k · expected is nearest to ours, and how far apart they then are."""
    k = float((ours * expected).sum() / max(float((expected * expected).sum()), TINY))
    return k, largest(ours - k * expected) / max(largest(ours), TINY)


def clip_factor(max_norm: float, norm: float) -> float:
    """What torch's `clip_grad_norm_` multiplies gradients of this norm with."""
    return min(1.0, max_norm / (norm + 1e-6))
