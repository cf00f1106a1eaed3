"""The real training: the transformers class, torch's AdamW and transformers' schedule, some steps of them as a trace.

    python -m mindport.parity.reference_training --model DIR --out TRACE --steps N

Everything is done twice, in float32 and in float64, so that each number comes with what float32 costs torch itself.
Names of arrays (S steps, B rows of T tokens; a parameter's values may be those at `entries` places, see `recipe`):

    batches, labels       (S, B, T) int32: the ids, and the token that follows each, −100 where none counts
    loss, norm, lr        (S,) mean loss in nats, norm of all gradients before clipping, learning rate
    grad/<parameter>      of the whole model's loss at step 0, before clipping
    weight/N/<parameter>  after N steps; m/N/…, v/N/…: AdamW's means of the gradient and of its square
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from mindport.config import ModelConfig, read_config
from mindport.config.dialect import Dialect
from mindport.errors import UsageError
from mindport.parity.gradients import all_to_hub
from mindport.parity.identity import cut
from mindport.parity.inputs import SEED, within
from mindport.parity.recipe import (
    KEPT,
    ROWS,
    Recipe,
    batch_tokens,
    batches,
    entries,
    looked_at,
    own_labels,
    real_tokens,
    recipe_for,
)
from mindport.parity.reference import (
    Float64,
    answer,
    check_finite,
    describe,
    encoded,
    load,
    parser,
    settle,
    widen,
)
from mindport.parity.trace import Trace, write_trace
from mindport.sources import corpus

CHARACTERS = 8  # of text for each token wanted: more than any tokenizer needs
Batches = tuple[np.ndarray, np.ndarray]
Named = Mapping[str, torch.Tensor]


class Sight:
    """What of a model's parameters is kept: under our names, at the same places in each framework."""

    def __init__(self, config: ModelConfig, dialect: Dialect) -> None:
        self.config, self.dialect, self.most = config, dialect, entries(config)

    def __call__(self, under: str, values: Named) -> dict[str, np.ndarray]:
        """`values` by the class's names → arrays of a trace, under `under`/."""
        arrays = {name: value.detach().numpy() for name, value in values.items()}
        found = all_to_hub(arrays, self.config, self.dialect)
        return {f"{under}/{name}": looked_at(name, x, self.most) for name, x in found}


def record(
    directory: Path, out: Path, *, steps: int, layers: int | None = None, overwrite: bool = False,
    allow: Sequence[str] = (), padded_vocab: int | None = None,
) -> Path:  # fmt: skip
    """Train the reference and write its trace.

    Args:
        directory: a Hugging Face directory.
        out: the trace to write.
        steps: how many.
        layers: keep the first so many layers.
        overwrite: replace a trace that is there.
        allow: unknown keys of config.json that the user knows to be harmless.
        padded_vocab: rows of the embedding, where those beyond vocab_size are padding.

    Raises:
        UsageError: there is no step to take.
        BackendError: the reference itself computes NaN or infinities.
    """
    if steps < 1:
        raise UsageError("a training takes a step at least", got=steps, expected="1 or more")
    settle()
    report = read_config(directory, allow, padded_vocab)
    config, dialect = cut(report.model, layers), report.dialect
    stream, made_from = _stream(directory, config, steps)
    data, sight = batches(stream, config, steps), Sight(config, dialect)
    model = load(directory, dialect, config)
    told = recipe_for(config, steps, _first_norm(model, data))
    single = _train(model, told, data, sight)
    check_finite(single)
    del model  # before the next one, which is twice its size
    exact = _exactly(load(directory, dialect, config), told, data, sight)
    about = {"recipe": told.as_dict(), "entries": sight.most, "dropout": "off"}
    trace = Trace(describe(directory, config, made_from) | about)
    trace.arrays |= dict(zip(("batches", "labels"), data, strict=True))
    for name, value in single.items():
        trace.add(name, value.astype(np.float32), exact[name])
    return write_trace(trace, out, overwrite=overwrite)


def _stream(directory: Path, config: ModelConfig, steps: int) -> tuple[np.ndarray, str]:
    """A long row of ids, and where they come from."""
    wanted = steps * ROWS * batch_tokens(config)
    ids, why = encoded(directory, config, lambda encode: _of_corpus(encode, config, wanted))
    if ids is not None:
        return ids, "the bundled text"
    ids = np.random.default_rng(SEED).integers(0, config.vocab_size, wanted)
    return ids, f"random ids, seed {SEED}: {why}"


def _of_corpus(encode: Any, config: ModelConfig, wanted: int) -> np.ndarray:
    text = corpus().read_text(encoding="utf-8")[: CHARACTERS * wanted]
    return within(np.array(encode(text), np.int64)[:wanted], config)


def _exactly(model: Any, told: Recipe, data: Batches, sight: Sight) -> dict[str, np.ndarray]:
    """The same training in float64."""
    widen(model)
    with Float64():
        return _train(model, told, data, sight)


def _first_norm(model: Any, data: Batches) -> float:
    """The norm of the gradients at step 0; the model stays as it is."""
    _loss(model, *next(_each(data))).backward()
    norm = torch.nn.utils.get_total_norm([weight.grad for weight in model.parameters()])
    model.zero_grad()
    return norm.item()


def _train(model: Any, told: Recipe, data: Batches, sight: Sight) -> dict[str, np.ndarray]:
    """All steps; the model's weights move."""
    named, curve = dict(model.named_parameters()), []
    optimizer = _optimizer(model, told)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, told.warmup_steps, told.total_steps)
    _say(f"{len(data[0])} steps in {next(model.parameters()).dtype}".replace("torch.", ""))
    found = sight("weight/0", named)
    for step, (ids, labels) in enumerate(_each(data), 1):
        optimizer.zero_grad()
        loss = _loss(model, ids, labels)
        loss.backward()
        if step == 1:
            found |= sight("grad", {name: weight.grad for name, weight in named.items()})
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), told.max_norm)
        curve.append((loss.item(), norm.item(), schedule.get_last_lr()[0]))
        optimizer.step()
        schedule.step()
        if step in KEPT:
            found |= _after(step, named, optimizer, sight)
    return found | dict(zip(("loss", "norm", "lr"), np.array(curve).T, strict=True))


def _optimizer(model: Any, told: Recipe) -> torch.optim.AdamW:
    weights = list(model.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": told.weight_decay},
        {"params": [weight for weight in weights if weight.ndim == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=told.lr, betas=told.betas, eps=told.eps)


def _loss(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """As the class itself computes it; padding is masked."""
    mask, own = real_tokens(labels.numpy()), own_labels(labels.numpy())
    return model(ids, attention_mask=torch.from_numpy(mask).long(), labels=torch.from_numpy(own), use_cache=False).loss


def _after(step: int, named: Named, optimizer: torch.optim.AdamW, sight: Sight) -> dict[str, np.ndarray]:
    """Weights and both means."""
    found = sight(f"weight/{step}", named)
    for mean, kept in (("m", "exp_avg"), ("v", "exp_avg_sq")):
        found |= sight(f"{mean}/{step}", {name: optimizer.state[weight][kept] for name, weight in named.items()})
    return found


def _each(data: Batches) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """One batch after the other."""
    return ((torch.from_numpy(ids).long(), torch.from_numpy(labels).long()) for ids, labels in zip(*data, strict=True))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """The command line of the process."""
    told = parser("mindport.parity.reference_training", __doc__)
    told.add_argument("--steps", type=int, required=True, metavar="N", help="train so many steps")
    return answer(told, record, argv)


if __name__ == "__main__":
    sys.exit(main())
