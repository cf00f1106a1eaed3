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

LAYER = ("view", "cat", "masked_fill", "where", "transpose", "permute", "contiguous", "linear map, as a function")


def operator_table() -> Table:
    """The operators of a layer in both languages: rows of the table that `mindport coverage` tries."""
    from mindport.coverage.table import OPERATORS

    rows = [(operator.torch, operator.ms, operator.trap or "–") for operator in OPERATORS if operator.name in LAYER]
    return Table("the same in MindSpore", ("PyTorch", "MindSpore", "mind"), rows)


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
