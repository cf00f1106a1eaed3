"""A training as transformers and torch do it, on the very batches that another one was fed.

    python -m mindport.parity.reference_run --model DIR --batches FED.npz --recipe RECIPE.json --out ANSWER.json

The family's class with the weights of a Hugging Face directory, SDPA attention, fused AdamW, the schedule of the same
name; parts of a step are weighted by tokens (`num_items_in_batch`), as Hugging Face's Trainer does it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from mindport.config import read_config
from mindport.measure import memory
from mindport.parity.curves import Ran
from mindport.parity.exchange import Fed, Rows, RunRecipe, counted, read_fed, read_recipe, threads, write_answer
from mindport.parity.float64 import Float64
from mindport.parity.reference import answer, load, parser, settle, widen

SCHEDULES: dict[str, Any] = {
    "constant": lambda optimizer, told: transformers.get_constant_schedule_with_warmup(optimizer, told.warmup),
    "linear": lambda optimizer, told: transformers.get_linear_schedule_with_warmup(optimizer, told.warmup, told.steps),
    "cosine": lambda optimizer, told: transformers.get_cosine_schedule_with_warmup(optimizer, told.warmup, told.steps),
}


def run(
    directory: Path, out: Path, *, batches: Path, recipe: Path, exact: bool = False, allow: Sequence[str] = (),
    padded_vocab: int | None = None,
) -> Path:  # fmt: skip
    """Train the reference and write what it did.

    Args:
        directory: a Hugging Face directory, with the weights to begin with.
        out: the answer, `exchange.read_answer` reads it.
        batches: `exchange.write_fed` wrote them.
        recipe: `exchange.write_recipe` wrote it.
        exact: do it all once more in float64.
        allow: unknown keys of config.json that the user knows to be harmless.
        padded_vocab: rows of the embedding, where those beyond vocab_size are padding.
    """
    settle()
    torch.set_num_threads(threads())
    fed, told, report = read_fed(batches), read_recipe(recipe), read_config(directory, allow, padded_vocab)
    memory.reset_peak()
    before = memory.peak()
    model = load(directory, report.dialect, report.model, attention="sdpa")
    notes = _every_row_learns(model, fed)
    single = train(model, told, fed, before)
    del model
    exactly = None
    if exact:
        model = load(directory, report.dialect, report.model, attention="sdpa")
        _every_row_learns(model, fed)
        widen(model)
        with Float64():
            exactly = train(model, told, fed, before)
    return write_answer(out, single, exactly, notes)


def train(model: Any, told: RunRecipe, fed: Fed, before: float = 0.0) -> Ran:
    """All steps; the model's weights move.

    Args:
        model: of transformers.
        told: optimizer and schedule.
        fed: the batches.
        before: megabytes before the model was made.
    """
    _without_dropout(model)
    optimizer = make_optimizer(model, told)
    schedule = SCHEDULES[told.shape](optimizer, told)
    held_out = [measure(model, fed.held_out)] if fed.held_out else []
    rows: list[tuple[Any, ...]] = []
    for parts in fed.steps:
        start = time.perf_counter()
        loss, norm, lr, count = step(model, optimizer, schedule, parts, told.max_norm)
        seconds = time.perf_counter() - start
        rows.append((loss, norm, lr, count, sum(ids.size for ids, _ in parts), seconds))
    peak = memory.peak()
    held_out += [measure(model, fed.held_out)] if fed.held_out else []
    columns = dict(zip(("loss", "norm", "lr", "counted", "tokens", "seconds"), zip(*rows, strict=True), strict=True))
    return Ran(who=f"{type(model).__name__}, {str(model.dtype).removeprefix('torch.')}", **columns,
               held_out=tuple(held_out), memory=(before, peak), threads=torch.get_num_threads(),
               versions={"torch": torch.__version__, "transformers": transformers.__version__})  # fmt: skip


def step(
    model: Any, optimizer: torch.optim.Optimizer, schedule: Any, parts: Sequence[Rows], max_norm: float | None
) -> tuple[float, float, float, int]:
    """(loss, norm before clipping, rate, tokens that count) of one step, which moves the weights."""
    count = sum(counted(labels) for _, labels in parts)
    losses = []
    for ids, labels in parts:
        loss = loss_of(model, ids, labels, count)
        loss.backward()
        losses.append(loss.detach())
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf") if max_norm is None else max_norm)
    lr = schedule.get_last_lr()[0]
    optimizer.step()
    schedule.step()
    optimizer.zero_grad(set_to_none=True)
    return sum(loss.item() for loss in losses), norm.item(), lr, count


def loss_of(model: Any, ids: np.ndarray, labels: np.ndarray, count: int) -> torch.Tensor:
    """What some rows add to the mean over `count` tokens. Padding ends a row and no query looks ahead, so no mask is
    needed; without one, SDPA takes its fast way."""
    own = torch.from_numpy(labels).long()
    return model(torch.from_numpy(ids).long(), labels=own, num_items_in_batch=count, use_cache=False).loss


def make_optimizer(model: Any, told: RunRecipe) -> torch.optim.AdamW:
    """AdamW whose decay spares norms and biases."""
    weights = list(model.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": told.weight_decay},
        {"params": [weight for weight in weights if weight.ndim == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=told.lr, betas=told.betas, eps=told.eps, fused=True)


@torch.no_grad()
def measure(model: Any, batches: Sequence[Rows]) -> float:
    """Mean loss in nats over all tokens of some batches that count."""
    counts = [counted(labels) for _, labels in batches]
    sums = [loss_of(model, *rows, 1).item() for rows in batches]
    return sum(sums) / sum(counts)


def _without_dropout(model: Any) -> None:
    """Training mode, in which nothing is drawn: two frameworks never draw the same numbers."""
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0


def _every_row_learns(model: Any, fed: Fed) -> tuple[str, ...]:
    """transformers' embedding keeps the row of the padding token as it is, in text as well, where that token is also
    the end of a turn; ours learns it, and for the comparison so does this one."""
    table = model.get_input_embeddings()
    token, table.padding_idx = table.padding_idx, None
    parts = [rows for step in fed.steps for rows in step]
    if token is None or not any(((ids == token) & (labels == token)).any() for ids, labels in parts):
        return ()
    return (f"token {token} is padding and text: transformers leaves its row of the embedding as it is, unless told",)


def main(argv: list[str] | None = None) -> int:
    """The command line of the process."""
    told = parser("mindport.parity.reference_run", __doc__, traces=False)
    told.add_argument("--batches", type=Path, required=True, help="what the training is fed, an .npz")
    told.add_argument("--recipe", type=Path, required=True, help="optimizer and schedule, JSON")
    told.add_argument("--exact", action="store_true", help="do it all once more in float64")
    return answer(told, run, argv)


if __name__ == "__main__":
    sys.exit(main())
