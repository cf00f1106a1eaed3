"""Small tables for the lessons; each figure is computed when the table is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mindport.debug import faultlab
from mindport.debug.faults import FAULTS
from mindport.debug.faults.fault import compared
from mindport.parity.rows import Row
from mindport.parity.trace import Trace
from mindport.tables import Table

LESSON = ("swap", "transpose", "norm_swap", "drop_bias", "random", "float16", "gelu", "eps", "no_mask", "scale_width")

OPERATORS = (
    # PyTorch                      MindSpore                              the trap
    (
        "x.view(2, -1)",
        "x.reshape((2, -1))",
        "a strided view must not be reshaped in place; reshape copies when it has to",
    ),
    ("torch.cat([a, b], dim=1)", "ops.cat((a, b), axis=1)", "dim is called axis"),
    (
        "x.masked_fill(m, v)",
        "x.masked_fill(m, v)",
        "the mask must be bool, v no integer where x is float; adding a full-shape mask is four times faster",
    ),
    ("torch.where(m, a, b)", "ops.where(m, a, b)", "the condition must be bool; a and b are promoted, as in torch"),
    ("x.transpose(1, 2)", "x.swapaxes(1, 2)", "MindSpore's transpose((0, 2, 1, 3)) is torch's permute"),
    ("x.permute(0, 2, 1, 3)", "x.transpose((0, 2, 1, 3))", "all axes are named"),
    ("x.contiguous()", "x.contiguous()", "needed after a transpose when the memory itself is handed on (files, NumPy)"),
    ("x @ w.t() + b", "ops.MatMul(transpose_b=True), ops.BiasAdd()", "two-dimensional products are the fast ones"),
)


def operator_table() -> Table:
    """The operators of one layer, in both languages."""
    return Table("the same in MindSpore", ("PyTorch", "MindSpore", "mind"), OPERATORS)


def mask_table(tokens: int = 6) -> Table:
    """The causal mask as the model's own attention kernel makes it: what is added to the scores."""
    from mindport.model.kernels.attention import Reference

    kernel = Reference(scale=1.0, dropout=0.0, dtype="float32")
    mask = kernel.mask(1, tokens, tokens, None).asnumpy()[0]  # (T, S)
    rows = [(f"query {i}", *("sees" if value == 0 else f"{value:.1e}" for value in row)) for i, row in enumerate(mask)]
    return Table("added to the scores", ("", *(f"key {j}" for j in range(tokens))), rows)


def bundled_lab(name: str = "tiny-gpt2") -> faultlab.LabReport:
    """The fault lab on a bundled model, with a few faults."""
    return faultlab.fault_lab(only=LESSON, models=[name])


def fingerprints(name: str = "tiny-llama") -> dict[str, Row]:
    """Two faults of attention in a bundled model with rotary positions: the row of the first wrong value of each."""
    with faultlab.grounds([name]) as (ground,):
        aside = ground.converted.parent
        found = {fault.what: fault.evidence(ground, aside).rows for fault in (FAULTS["theta"], FAULTS["no_mask"])}
    return {what: next(row for row in rows if row.state == "failed") for what, rows in found.items()}


def examine(converted: Path | str, reference: Trace) -> tuple[Row, ...]:
    """Every value of the forward pass in PyNative mode, beside the reference's."""
    return compared(Path(converted), reference)[1]


def eps_table(eps: float, factor: float = 10.0, width: int = 256) -> Table:
    """How far a norm's output moves when its epsilon is `factor` times too large, by the input's deviation."""
    noise = np.random.default_rng(0).standard_normal(width)
    rows = []
    for sigma in (10.0, 1.0, 0.1, 0.01, 0.001):
        right, wrong = (_normalised(sigma * noise, value) for value in (eps, factor * eps))
        rows.append((sigma, float(np.abs(wrong - right).max() / np.abs(right).max())))
    return Table(f"eps {factor * eps:g} instead of {eps:g}", ("σ of the input", "relative error of the output"), rows)


def _normalised(x: np.ndarray, eps: float) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + eps)
