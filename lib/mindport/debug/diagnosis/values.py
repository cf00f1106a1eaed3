"""Mistakes in how a value is computed from the right parameters: norms, activations, the residual stream, dropout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mindport.debug.diagnosis import cells
from mindport.debug.diagnosis.cells import Array
from mindport.debug.diagnosis.hypothesis import Candidates, Hypothesis, one
from mindport.debug.diagnosis.site import Site
from mindport.parity import metrics

EPSILONS = (1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
MADE_UP = 0.2  # how far a dropout's factor may be from what its zeros ask for: few of few values
CONSTANT = 1e-4  # how far a factor may be from 1 before it is one
Cell = Callable[[Array], Array]


def _normed(site: Site, offset: int | None = None, weightless: bool = False, **how: object) -> Array:
    """The value of this norm, computed in another way."""
    bias, offset = site.bias(), site.config.norm_offset if offset is None else offset
    weight = 1.0 if weightless else site.weight() + offset
    return site.normalised(site.x, **how) * weight + (0.0 if bias is None else bias)


def _epsilons(site: Site) -> Candidates:
    right = site.config.norm_eps
    for eps in dict.fromkeys([right * 10, right / 10, *EPSILONS, _fitted(site)]):
        yield f"{eps:.1e}, not {right:.1e}", _normed(site, eps=eps)


def _fitted(site: Site) -> float:
    """The epsilon that most of our numbers speak for: (x w / ours)² less the variance."""
    x = site.x - site.x.mean(-1, keepdims=True) if site.config.norm == "layer" else site.x
    bias = site.bias()
    made, weight = site.ours - (0.0 if bias is None else bias), site.weight() + site.config.norm_offset
    with np.errstate(divide="ignore", invalid="ignore"):
        each = (x * weight / made) ** 2 - (x * x).mean(-1, keepdims=True)
    return max(float(np.nanmedian(each)), 0.0)


def _offsets(site: Site) -> Candidates:
    said = {0: "weight", 1: "1 + weight", 2: "2 + weight: both the converter and the formula add 1"}
    for other in said.keys() - {site.config.norm_offset}:
        yield said[other], _normed(site, offset=other)


def _kinds(site: Site) -> Candidates:
    centred = site.config.norm == "layer"
    yield "not subtracted" if centred else "subtracted", _normed(site, centred=not centred)


def _activations(site: Site) -> Candidates:
    """Every activation, on the half where it belongs."""
    gate, up = _halves(site)
    for name, act in cells.ACTIVATIONS.items():
        yield f"{name}, not {site.config.hidden_act}", act(gate) * up if site.config.gated_mlp else act(up)


def _halves(site: Site) -> tuple[Array, Array]:
    up = site.reference(site.sibling("mlp.up"))
    return (site.reference(site.sibling("mlp.gate")) if site.config.gated_mlp else up), up


def _wrong_half(site: Site) -> Candidates:
    gate, up = _halves(site)
    act = cells.ACTIVATIONS[site.config.hidden_act]
    if site.config.gated_mlp:
        yield "up, not on gate", gate * act(up)
        yield "both halves", act(gate) * act(up)
        yield "the product", act(gate * up)


def _wirings(site: Site) -> Candidates:
    """A layer with its parts in another order, or without one."""
    norm1, norm2 = (site.norm(site.sibling(name)) for name in ("norm1", "norm2"))
    attention, mlp, x = site.attention(), site.mlp(), site.x
    attended = attention(norm1(x))
    after = x + attended

    yield "attention and MLP stand side by side", after + mlp(norm2(x))
    yield "attention and MLP stand one after the other", after + mlp(norm2(after))
    yield "attention and MLP share the first norm", after + mlp(norm1(x))
    yield "the second norm is left out", after + mlp(after)
    yield "attention's output takes the place of the residual stream", attended + mlp(norm2(attended))
    yield "the MLP's output takes the place of the residual stream", mlp(norm2(after))
    yield "the MLP is left out", after
    yield "attention is left out", x + mlp(norm2(x))
    summed = norm1(x + attention(x))
    yield "the norms stand after the sums (post-norm)", norm2(summed + mlp(summed))
    normed = norm1(x)
    between = normed + attended
    yield "the residual stream is taken after the norms", norm2(between) + mlp(norm2(between))


def _dropped(site: Site) -> Candidates:
    """Zeros here and there, and everything else larger by what makes up for them."""
    kept, share = _kept(site)
    factor = _factor(site.ours[kept], site.right[kept])
    if 0 < share < 1 and factor > 1 + CONSTANT and abs(factor * share - 1) < MADE_UP:
        yield f"{1 - share:.0%}", np.where(kept, site.right * factor, 0)


def _erased(site: Site) -> Candidates:
    kept, share = _kept(site)
    if 0 < share < 1:
        yield f"{1 - share:.0%}", np.where(kept, site.right, 0)


def _kept(site: Site) -> tuple[Array, float]:
    """Where our value is not 0, and which share that is of those that should not be."""
    kept = site.ours != 0
    return kept, float(kept[site.right != 0].mean()) if site.right.any() else 0.0


def _scaled(site: Site) -> Candidates:
    factor = _factor(site.ours, site.right)
    if abs(factor - 1) > CONSTANT:
        yield f"{factor:.4g}", site.right * factor


def _factor(ours: Array, right: Array) -> float:
    """By which `right` comes nearest to ours."""
    return float((ours * right).sum() / max(float((right * right).sum()), metrics.TINY))


def _zeros(site: Site) -> Candidates:
    return one(np.zeros_like(site.right))


NORMS = (
    Hypothesis("norm_eps", "the norm's epsilon is {}",
               "look at rms_norm_eps or layer_norm_epsilon in config.json", _epsilons),
    Hypothesis("norm_offset", "the norm multiplies by {}", "Gemma's norms are stored around zero, others around one: "
               "convert the weight or the formula, not both", _offsets),
    Hypothesis("norm_kind", "the mean is {}", "layer norm subtracts the mean, RMS norm does not", _kinds),
    Hypothesis("norm_variance", "the variance is divided by n - 1", "a norm divides by n: torch.var needs correction=0",
               lambda site: one(_normed(site, spare=1))),
    Hypothesis("norm_eps_place", "the epsilon is added to the deviation, not to the variance",
               "put the epsilon under the root", lambda site: one(_normed(site, outside=True))),
    Hypothesis("norm_weight", "the norm has no weight", "load the norm's weight",
               lambda site: one(_normed(site, weightless=True))),
)  # fmt: skip

HIDDEN = (
    Hypothesis("activation", "the activation is {}", "look at hidden_act (activation_function) in config.json: "
               "gelu_new is the tanh form, gelu the erf form", _activations),
    Hypothesis("gate_on_up", "the activation is on {}", "down(act(gate(x)) · up(x)): the halves of a fused projection "
               "may stand the other way", _wrong_half),
)  # fmt: skip

BLOCKS = (
    Hypothesis("residual", "the layer is wired otherwise: {}", "compare the layer's forward with the family's class",
               _wirings),
)  # fmt: skip

ANY = (
    Hypothesis("dropout", "dropout is on: {} of the values are 0, the others larger by one factor",
               "call set_train(False); in MindSpore a cell trains when it is told, whatever its parent was told",
               _dropped),
    Hypothesis("partly_zero", "{} of the values are 0, and the others are right", "look for a mask, a ReLU, or a part "
               "that is not written: it is no dropout, which makes the others larger", _erased),
    Hypothesis("zero", "the value is 0", "look whether the module's result is used", _zeros),
    Hypothesis("scaled", "the value is multiplied by {}", "look for a factor of this size before or after the module",
               _scaled),
)  # fmt: skip
