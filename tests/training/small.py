"""One layer of each kind, in both frameworks, with batches and configurations: what is slow here is to compile."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from mindport.config import ModelConfig
from mindport.model import GPT, Precision
from mindport.training import Stepper
from mindport.training.config import BatchConfig, DataConfig, OptimizerConfig, ScheduleConfig, TrainConfig
from mindport.training.data.batch import IGNORED, Batch
from tests.families import GPT2, decoder
from tests.model.reference import Pair, to_hub

ROWS, TOKENS, VOCAB, LR, STEPS = 2, 12, 37, 1e-2, 8
CONFIG = TrainConfig(
    mode="pynative", steps=STEPS, data=DataConfig(tokens=TOKENS), batch=BatchConfig(rows=ROWS),
    optimizer=OptimizerConfig(lr=LR), schedule=ScheduleConfig("cosine", warmup=2),
)  # fmt: skip
SETTINGS = {"gpt2": {**GPT2, "n_layer": 1}, "llama": decoder(num_hidden_layers=1, hidden_size=24, attention_bias=True)}


def pair(family: str, directory: Path) -> Pair:
    return Pair(directory, family, SETTINGS[family])


def batch(seed: int, ignored: float = 0.2, tokens: int = TOKENS, rows: int = ROWS) -> Batch:
    """Random ids, of which about this share does not count."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(0, VOCAB, (rows, tokens), dtype=np.int32)
    return Batch(ids, np.where(generator.random(ids.shape) < ignored, IGNORED, ids).astype(np.int32))


def together(batches: Sequence[Batch]) -> Batch:
    return Batch(np.concatenate([b.ids for b in batches]), np.concatenate([b.labels for b in batches]))


def changed(**changes: Any) -> TrainConfig:
    """`CONFIG` with other fields; those of data, batch and schedule find their place."""
    inner = {"data": ("tokens", "buckets"), "batch": ("rows", "accumulate"), "schedule": ("shape", "warmup")}
    for part, names in inner.items():
        given = {name: changes.pop(name) for name in names if name in changes}
        changes[part] = replace(getattr(CONFIG, part), **given)
    return replace(CONFIG, **changes)


def dropping(config: ModelConfig) -> ModelConfig:
    return replace(config, embd_pdrop=0.2, attn_pdrop=0.2, resid_pdrop=0.2)


def stepper(pair: Pair, level: Precision | None = None, *, drop: bool = False, **changes: Any) -> Stepper:
    config = dropping(pair.config) if drop else pair.config
    model = GPT(config, lambda name, shape: pair.values[name], precision=level, seed=7)
    return Stepper(model, changed(**changes))


def values(parameters: dict) -> dict[str, np.ndarray]:
    return {name: parameter.asnumpy().copy() for name, parameter in parameters.items()}


def learned(step: Any) -> dict[str, np.ndarray]:
    """The weights, but for those without a gradient: AdamW makes a whole step of what rounding leaves there."""
    return values({w.name: w for w in step.optimizer.weights if not is_idle(w.name)})


def is_idle(name: str) -> bool:
    """The keys' bias without rotation: a constant, which softmax does not see."""
    return name.endswith("attn.k.bias")


def furthest(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """The largest difference of the values that `one` has."""
    return max(np.abs(value - other[name]).max() for name, value in one.items())


class Torch:
    """The same training in torch: groups, schedule, clipping and loss scale from torch and transformers themselves."""

    def __init__(self, pair: Pair, scaler: Any = None, warmup: int = 2, steps: int = STEPS) -> None:
        self.pair, self.model, self.scaler = pair, copy.deepcopy(pair.torch).train(), scaler
        weights = list(self.model.parameters())
        groups = [
            {"params": [w for w in weights if w.ndim > 1], "weight_decay": 0.1},
            {"params": [w for w in weights if w.ndim == 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8)
        self.schedule = transformers.get_cosine_schedule_with_warmup(self.optimizer, warmup, steps)

    def step(self, batch: Batch, factor: float = 1.0) -> tuple[float, float, float]:
        """Loss, norm, rate. The loss that is differentiated is multiplied by `factor`."""
        self.optimizer.zero_grad()
        ids, labels = (torch.from_numpy(x).long() for x in (batch.ids, batch.labels))
        loss = self.model(ids, labels=labels).loss * factor
        scaler = self.scaler or torch.amp.GradScaler("cpu", enabled=False)
        scaler.scale(loss).backward()
        scaler.unscale_(self.optimizer)
        norm, lr = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0), self.schedule.get_last_lr()[0]
        before = scaler.get_scale()
        scaler.step(self.optimizer)
        scaler.update()
        if scaler.get_scale() >= before:  # as transformers' trainer does: a skipped step is none of the schedule's
            self.schedule.step()
        return loss.item(), norm.item(), lr

    @property
    def weights(self) -> dict[str, np.ndarray]:
        return to_hub({name: w.detach().numpy() for name, w in self.model.state_dict().items()}, self.pair.config)
