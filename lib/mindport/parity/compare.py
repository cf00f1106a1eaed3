"""Our trace held against the reference's: NumPy only, neither framework is needed.

Two questions for each value. *Alone*: our cell on the reference's own input; what differs there is that cell's fault.
*Whole*: the value in the run of the whole model; what differs only there was inherited from an earlier cell.
"""

from __future__ import annotations

import math

import numpy as np

from mindport.config import dialect_for, from_dict
from mindport.errors import FileError, some
from mindport.parity import metrics
from mindport.parity.comparison import Comparison
from mindport.parity.limits import FLOAT32, Limits
from mindport.parity.rows import Divergence, GradientRow, Logits, Row
from mindport.parity.taps import LOGITS, Tap, is_residual, taps
from mindport.parity.trace import Trace
from mindport.weights.names import natural


def compare(reference: Trace, ours: Trace, limits: Limits = FLOAT32) -> Comparison:
    """Hold `ours` against `reference`.

    Raises:
        FileError: a trace lacks an array.
    """
    rows = compare_forward(reference, ours, limits)
    return Comparison(
        rows=rows,
        gradients=_gradients(reference, ours, limits),
        logits=_logits(reference, ours, limits),
        first_divergence=first_divergence(rows),
        greedy_equal=np.array_equal(reference["greedy"], ours["greedy"]),
        greedy_tokens=reference["greedy"].shape[1],
        greedy_variety=max(len(np.unique(row)) for row in reference["greedy"]),
        loss=ours.about["loss"],
        loss_reference=reference.about["loss"],
        loss_limit=limits.for_loss(_own_loss_error(reference)),
        loss_of_nothing=math.log(from_dict(reference.about["model"]).vocab_rows),
        device=ours.about["device"],
        limits=limits,
    )


def compare_forward(reference: Trace, ours: Trace, limits: Limits = FLOAT32) -> tuple[Row, ...]:
    """Every value of the forward pass, in the order in which the reference made them."""
    config = from_dict(reference.about["model"])
    watched = taps(config, dialect_for(config.model_type))
    if unseen := sorted(watched.keys() ^ set(reference.about["order"]), key=natural):
        raise FileError("the reference's trace does not show every module", got=some(unseen),
                        expected=f"the {len(watched)} values of this family",
                        do="make it again with this version of MindPort and of transformers")  # fmt: skip
    return tuple(_row(watched[path], reference, ours, limits) for path in reference.about["order"])


def _row(tap: Tap, reference: Trace, ours: Trace, limits: Limits) -> Row:
    expected, exact = reference[f"out/{tap.path}"], reference.exact(f"out/{tap.path}")
    if f"local/{tap.path}" not in ours or f"out/{tap.path}" not in ours:
        return _unlike(tap, expected.shape, "never run in ours")
    alone, whole = ours[f"local/{tap.path}"], ours[f"out/{tap.path}"]
    if alone.shape != expected.shape or whole.shape != expected.shape:
        return _unlike(tap, expected.shape, f"shape {expected.shape} ≠ {alone.shape}")
    assert exact is not None  # every `out/` array of a reference has one
    own, apart = metrics.relative(expected, exact), metrics.relative(alone, expected)
    limit, in_whole = limits.for_cell(own), metrics.relative(whole, expected)
    far = reference.exact(f"far/{tap.path}") if is_residual(tap.path) else None
    whole_limit = None if far is None else limits.for_cell(metrics.relative(expected, far))
    wrong = not apart <= limit
    inherited = whole_limit is not None and not in_whole <= whole_limit
    torch_error = metrics.error(expected, exact)
    return Row(
        path=tap.path,
        foreign=tap.foreign,
        shape=tuple(expected.shape),
        scale=metrics.largest(expected),
        error=metrics.error(alone, expected),
        relative=apart,
        limit=limit,
        own=own,
        ratio=metrics.error(alone, exact) / torch_error if torch_error else None,
        cosine=metrics.cosine(alone, expected),
        whole_error=metrics.error(whole, expected),
        whole_cosine=metrics.cosine(whole, expected),
        whole=in_whole,
        whole_limit=whole_limit,
        positions=metrics.by_position(alone if wrong else whole, expected) if wrong or far is not None else (),
        state="failed" if wrong else "inherited" if inherited else "pass",
    )


def _unlike(tap: Tap, expected: tuple[int, ...], why: str) -> Row:
    """No figure can be given: infinity stands for each."""
    infinite = float("inf")
    return Row(tap.path, f"{tap.foreign}, {why}", expected, infinite, infinite, infinite, 0.0, 0.0, None,
               0.0, infinite, 0.0, infinite, None, (), "failed")  # fmt: skip


def first_divergence(rows: tuple[Row, ...]) -> Divergence | None:
    """The first cell that is wrong by itself; failing that, the first value that is wrong in the whole model."""
    for row in rows:
        if row.state == "failed":
            return Divergence(row.path, row.foreign, True, row.relative, row.limit, _sign(row))
    for row in rows:
        if row.state == "inherited" and row.whole_limit is not None:
            return Divergence(row.path, row.foreign, False, row.whole, row.whole_limit)
    return None


def _sign(row: Row) -> str:
    """What the course of the error over the positions gives away about attention."""
    if not row.path.endswith("attn.context") or len(row.positions) < 2:
        return ""
    first, last = row.positions[0] <= row.limit, row.positions[-1] <= row.limit
    if first and not last:
        return (
            "right at position 0 and wrong later: rotary positions (theta, scaling, layout) or the scale of the scores"
        )
    return "wrong at position 0 and right at the last one: the causal mask" if last and not first else ""


def _own_loss_error(reference: Trace) -> float:
    """What float32 costs the reference at the loss."""
    exact = reference.exact(f"far/{LOGITS}")
    assert exact is not None
    return abs(metrics.next_token_loss(exact, reference["ids"]) - reference.about["loss"])


def _logits(reference: Trace, ours: Trace, limits: Limits) -> Logits:
    expected, exact = reference[f"out/{LOGITS}"], reference.exact(f"far/{LOGITS}")
    assert exact is not None
    pynative, graph = ours[f"out/{LOGITS}"], ours[f"graph/{LOGITS}"]
    own = metrics.error(expected, exact)
    return Logits(
        scale=metrics.largest(expected),
        pynative=metrics.error(pynative, exact),
        graph=metrics.error(graph, exact),
        from_torch=max(metrics.error(pynative, expected), metrics.error(graph, expected)),
        own=own,
        limit=limits.for_logits(own),
    )


def _gradients(reference: Trace, ours: Trace, limits: Limits) -> tuple[GradientRow, ...]:
    """A gradient far smaller than the layer's largest is held to a thousandth of that one: the key's bias has none at
    all, since softmax does not see a constant, and what is left of it is rounding."""
    names = [name for name in reference.arrays if name.startswith("grad/")]
    floor = 1e-3 * max(metrics.largest(reference[name]) for name in names if name != "grad/input")
    rows = []
    for name in names:
        expected, exact = reference[name], reference.exact(name)
        assert exact is not None
        scale = metrics.largest(expected)
        unit = max(scale if name == "grad/input" else max(scale, floor), metrics.TINY)
        own = metrics.error(expected, exact) / unit
        apart = (metrics.error(ours[key], expected) / unit for key in (name, f"graph/{name}"))
        rows.append(GradientRow(name.removeprefix("grad/"), tuple(expected.shape), scale, *apart, own,
                                limits.for_gradient(own)))  # fmt: skip
    return tuple(rows)
