"""A tiny run for these tests: NumPy only, so that a process of it starts at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mindport.results import plain
from mindport.training.checkpoint import About, Snapshot
from mindport.training.config import TrainConfig
from mindport.weights import convert, load
from tests.weights.models import make

CONFIG = TrainConfig(model="tiny", out="run", seed=7)


def converted(directory: Path, family: str = "llama", **changes: Any) -> Path:
    """A MindPort directory with a tokenizer and a chat template."""
    source = make(directory / "hf", family, **changes)
    (source / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}')
    (source / "chat_template.jinja").write_text("{{ messages }}")
    convert(source, directory / "ms", progress=False)
    return directory / "ms"


def snapshot(source: Path, step: int, state: dict[str, np.ndarray] | None = None, **about: Any) -> Snapshot:
    """What a training of `source` would have made by `step`: each step has other values."""
    random = np.random.default_rng(step)
    weights = {name: x.astype(np.float32) for name, x in load(source, check=False).items()}
    weights = {name: x + random.standard_normal(x.shape, np.float32) * 0.01 for name, x in weights.items()}
    means = {f"adam.m.{name}": random.standard_normal(x.shape, np.float32) for name, x in weights.items()}
    counters = {"adam.step": np.array(step, np.int32), "loss_scale": np.array(65536.0, np.float32)}
    known = {"config": plain(CONFIG), "data": "d" * 64, "tokenizer": "t" * 64,
             "position": {"epoch": 1, "row": 8 * step}}  # fmt: skip
    return Snapshot(step, weights, {**means, **counters} if state is None else state, About(**{**known, **about}))


def same(found: Any, meant: Any) -> bool:
    """Whether both hold the same names, types, shapes and bytes."""
    return set(found) == set(meant) and all(
        (found[name].dtype, found[name].shape, found[name].tobytes()) == (x.dtype, x.shape, x.tobytes())
        for name, x in meant.items()
    )
