"""A training as transformers and torch do it, on the very batches that another one was fed.

    python -m mindport.parity.reference_run --model DIR --batches FED.npz --recipe RECIPE.json --out ANSWER.json

The family's class with the weights of a Hugging Face directory, SDPA attention, fused AdamW, the schedule of the same
name; parts of a step are weighted by tokens (`num_items_in_batch`), as Hugging Face's Trainer does it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from mindport.config import ModelConfig, read_config
from mindport.config.dialect import Dialect
from mindport.errors import UsageError, some
from mindport.measure import memory
from mindport.parity.curves import Ran
from mindport.parity.exchange import Fed, Rows, RunRecipe, counted, read_fed, read_recipe, threads, write_answer
from mindport.parity.float64 import Float64
from mindport.parity.reference import answer, load, parser, settle, widen
from mindport.weights.plan import table

SAID = 5  # lines of a run
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
    notes, spared = _every_row_learns(model, fed), spared_by(told.no_decay, report.dialect, report.model)
    single = train(model, told, fed, before, spared)
    del model
    exactly = None
    if exact:
        model = load(directory, report.dialect, report.model, attention="sdpa")
        _every_row_learns(model, fed)
        widen(model)
        with Float64():
            exactly = train(model, told, fed, before, spared)
    return write_answer(out, single, exactly, notes)


def train(model: Any, told: RunRecipe, fed: Fed, before: float = 0.0, spared: Collection[str] = ()) -> Ran:
    """All steps; the model's weights move.

    Args:
        model: of transformers.
        told: optimizer and schedule.
        fed: the batches.
        before: megabytes before the model was made.
        spared: parameters that do not decay, besides norms and biases.
    """
    _without_dropout(model)
    optimizer = make_optimizer(model, told, spared)
    schedule = SCHEDULES[told.shape](optimizer, told)
    held_out = [measure(model, fed.held_out)] if fed.held_out else []
    rows: list[tuple[Any, ...]] = []
    for n, parts in enumerate(fed.steps, 1):
        start = time.perf_counter()
        loss, norm, lr, count = step(model, optimizer, schedule, parts, told.max_norm)
        seconds = time.perf_counter() - start
        rows.append((loss, norm, lr, count, sum(ids.size for ids, _ in parts), seconds))
        if n % max(1, len(fed.steps) // SAID) == 0:
            print(f"{model.dtype}, step {n}/{len(fed.steps)}: loss {loss:.4f}", file=sys.stderr, flush=True)
    peak = memory.peak()
    held_out += [measure(model, fed.held_out)] if fed.held_out else []
    columns = dict(zip(("loss", "norm", "lr", "counted", "tokens", "seconds"), zip(*rows, strict=True), strict=True))
    return Ran(who=f"{type(model).__name__}, {str(model.dtype).removeprefix('torch.')}", **columns,
               held_out=tuple(held_out), memory=(before, peak), threads=torch.get_num_threads(),
               versions={"torch": torch.__version__, "transformers": transformers.__version__})  # fmt: skip


def step(
    model: Any, optimizer: torch.optim.Optimizer, schedule: Any, parts: Sequence[Rows], max_norm: float | None
) -> tuple[float, float, float, int]:
    """(loss, norm before clipping, rate, tokens that count) of one step, which moves the weights; where no token
    counts it moves nothing, and there is no loss."""
    count = sum(counted(labels) for _, labels in parts)
    if not count:
        return math.nan, math.nan, math.nan, 0
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


def make_optimizer(model: Any, told: RunRecipe, spared: Collection[str] = ()) -> torch.optim.AdamW:
    """AdamW whose decay spares norms, biases and those that are named."""
    groups: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    for name, weight in model.named_parameters():
        groups[weight.ndim > 1 and name not in spared].append(weight)
    decaying = [{"params": weights, "weight_decay": told.weight_decay * decays} for decays, weights in groups.items()]
    return torch.optim.AdamW(decaying, lr=told.lr, betas=told.betas, eps=told.eps, fused=True)


def spared_by(patterns: Sequence[str], dialect: Dialect, config: ModelConfig) -> frozenset[str]:
    """The class's names of the parameters that match patterns of ours.

    Raises:
        UsageError: of parameters that the class keeps in one, some match and some do not.
    """
    spared = set()
    for made in table(dialect, config).steps:
        matching = [name for name in made.hub if any(fnmatchcase(name, pattern) for pattern in patterns)]
        if matching and len(matching) < len(made.hub):
            raise UsageError("transformers keeps these in one parameter, which decays or does not",
                             where="optimizer.no_decay", got=some(matching), expected=some(made.hub))  # fmt: skip
        spared |= {made.foreign} if matching else set()
    return frozenset(spared)


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
