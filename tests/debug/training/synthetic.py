"""A training in NumPy whose every number is known, and the mistakes that can be made in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mindport.config import read_config, to_dict
from mindport.debug.diagnosis.training.loss import Scores
from mindport.debug.diagnosis.training.schedule import rate
from mindport.parity.recipe import IGNORED, Recipe
from mindport.parity.trace import Trace
from mindport.sources import resolve

SHAPES = {"embed.weight": (29, 6), "blocks.0.attn.q.weight": (6, 6), "blocks.0.attn.k.bias": (6,), "norm.weight": (6,)}
TOLD = Recipe(max_norm=0.5, warmup_steps=1, total_steps=10, no_decay=("blocks.0.attn.k.bias", "norm.weight"))
STEPS, ROWS, TOKENS, VOCAB = 4, 3, 8, 29
CONFIG = replace(read_config(resolve("tiny-gpt2")).model, vocab_size=VOCAB, hidden_size=6)
LENGTHS = (8, 5, 6)
Arrays = dict[str, np.ndarray]


def gradients(step: int) -> Arrays:
    """Of norm 1, but for the bias, which has none to speak of; one row of the table is never fed."""
    generator = np.random.default_rng(100 + step)
    found = {name: generator.standard_normal(shape) for name, shape in SHAPES.items()}
    found["blocks.0.attn.k.bias"] *= 1e-8
    found["norm.weight"] *= 1e-2
    norm = np.sqrt(sum((g**2).sum() for g in found.values()))
    return {name: (g / norm).astype(np.float32).astype(np.float64) for name, g in found.items()}


def data() -> tuple[np.ndarray, np.ndarray]:
    """ids and labels (S, B, T), rows of different length."""
    ids = np.random.default_rng(1).integers(1, VOCAB, (STEPS, ROWS, TOKENS)).astype(np.int32)
    place, lengths = np.arange(TOKENS), np.array(LENGTHS)[:, None]
    labels = np.where(place < lengths - 1, np.roll(ids, -1, -1), IGNORED)
    return np.where(place < lengths, ids, 0).astype(np.int32), labels.astype(np.int32)


def logits() -> np.ndarray:
    return np.random.default_rng(2).standard_normal((ROWS, TOKENS, VOCAB)).astype(np.float32)


def adam(m: np.ndarray, v: np.ndarray, t: int, told: Recipe) -> np.ndarray:
    one, two = told.betas
    return m / (1 - one**t) / (np.sqrt(v / (1 - two**t)) + told.eps)


def clip(found: Arrays, norm: float, told: Recipe) -> Arrays:
    return {name: g * min(1.0, told.max_norm / (norm + 1e-6)) for name, g in found.items()}


@dataclass(frozen=True)
class Training:
    """The right one as it stands; each field can be a mistake."""

    told: Recipe = TOLD
    made: Callable[[int], Arrays] = gradients  # the gradients of a step
    seen: Callable[[Arrays], Arrays] = lambda found: found  # what the step makes of them before clipping
    passed: Callable[[Arrays, float, Recipe], Arrays] = clip
    rates: np.ndarray | None = None  # that are reported
    used: Callable[[np.ndarray, int], float] = lambda rates, t: float(rates[t - 1])
    move: Callable[[np.ndarray, np.ndarray, int, Recipe], np.ndarray] = adam
    kept: Callable[[float, float], float] = lambda lr, decay: 1 - lr * decay
    l2: bool = False
    state: Callable[[np.ndarray], np.ndarray] = lambda x: x
    forgets: bool = False
    frozen: str = ""
    loss: float | None = None
    first: float = 1.0  # what the weights are multiplied with before all

    def trace(self, mode: str = "") -> Trace:
        ids, labels = data()
        model = {"model": to_dict(CONFIG), "entries": 10**6, "modes": {"PyNative": mode}}
        trace = Trace({"recipe": TOLD.as_dict(), **model})
        trace.arrays |= {"batches": ids, "labels": labels, f"{mode}logits": logits()}
        for name, value in self.arrays(labels[0]).items():
            trace.add(mode + name, np.asarray(value, np.float32))
        return trace

    def arrays(self, labels: np.ndarray) -> Arrays:
        generator = np.random.default_rng(0)
        weights = {
            name: self.first * generator.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()
        }
        state = {name: (np.zeros(shape), np.zeros(shape)) for name, shape in SHAPES.items()}
        rates = rate(self.told, np.arange(STEPS)) if self.rates is None else self.rates
        found = {f"weight/0/{name}": w for name, w in weights.items()}
        found |= {f"grad/{name}": g for name, g in self.made(0).items()}
        norms = []
        for t in range(1, STEPS + 1):
            seen = self.seen(self.made(t - 1))
            norms.append(float(np.sqrt(sum((g**2).sum() for g in seen.values()))))
            for name, g in self.passed(seen, norms[-1], self.told).items():
                weights[name], state[name] = self.step(name, weights[name], state[name], g, self.used(rates, t), t)
                found |= {
                    f"weight/{t}/{name}": weights[name],
                    f"m/{t}/{name}": state[name][0],
                    f"v/{t}/{name}": state[name][1],
                }
        losses = 3.0 + 0.1 * np.arange(STEPS)
        losses[0] = Scores(logits().astype(np.float64)).mean(labels) if self.loss is None else self.loss
        return found | {"loss": losses, "norm": np.array(norms), "lr": rates}

    def step(self, name: str, w: np.ndarray, state: Any, g: np.ndarray, lr: float, t: int) -> tuple[np.ndarray, Any]:
        (one, two), told = self.told.betas, self.told
        decay = 0.0 if name in told.no_decay else told.weight_decay
        g = g + decay * w if self.l2 else g
        m, v = (0 * x for x in state) if self.forgets else state
        m, v = (
            self.state(np.float32(x)).astype(np.float64) for x in (one * m + (1 - one) * g, two * v + (1 - two) * g * g)
        )
        after = w * self.kept(lr, 0.0 if self.l2 else decay) - lr * self.move(m, v, t, told)
        return (w if name == self.frozen else after.astype(np.float32)), (m, v)


RIGHT = Training()
