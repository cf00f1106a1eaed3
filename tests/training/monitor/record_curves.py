"""Two real trainings of the bundled tiny GPT-2 on the bundled text, as the healthy runs of the alarms' tests.

    python -m tests.training.monitor.record_curves

Writes curves.json: losses and norms of 300 steps from random weights, and of 100 from the trained ones; about a minute.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import mindspore as ms
import numpy as np
from tokenizers import Tokenizer

from mindport.config import read_config
from mindport.files import write_text
from mindport.model import GPT, NextTokenLoss, load_model
from mindport.sources import resolve
from mindport.training import AdamW, Cosine, TrainStep
from mindport.training.monitor import entropy
from mindport.weights import convert

ROWS, TOKENS, WARMUP = 8, 64, 10
CURVES = Path(__file__).with_name("curves.json")


def random_source(name: str, shape: tuple[int, ...]) -> np.ndarray:
    draw = np.random.default_rng(sum(name.encode()))
    if len(shape) > 1:
        return draw.normal(0, 0.02, shape).astype(np.float32)
    return np.full(shape, float("norm" in name and name.endswith("weight")), np.float32)


def record(model: GPT, ids: np.ndarray, steps: int, lr: float) -> list[list[float]]:
    """[loss, norm, rate] of each step on windows drawn from `ids`."""
    step = TrainStep(model, NextTokenLoss(model), AdamW(model.trainable_params(), weight_decay=0.1),
                     Cosine(lr, total=steps, warmup=WARMUP))  # fmt: skip
    draw, rows = np.random.default_rng(0), []
    for _ in range(steps):
        starts = draw.integers(0, len(ids) - TOKENS, ROWS)
        batch = ms.Tensor(np.stack([ids[start : start + TOKENS] for start in starts]))
        rows.append([float(f"{x.asnumpy().item():.5g}") for x in step(batch, batch)])
    return rows


def main() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    directory = resolve("tiny-gpt2")
    config = read_config(directory).model
    text = (directory.parents[1] / "corpus" / "shakespeare.txt").read_text()
    ids = np.array(Tokenizer.from_file(str(directory / "tokenizer.json")).encode(text).ids, np.int32)
    with tempfile.TemporaryDirectory() as folder:
        convert(directory, Path(folder, "model"), progress=False)
        trained = load_model(Path(folder, "model"))
    write_text(CURVES, json.dumps({
        "vocab": config.vocab_size, "warmup": WARMUP, "entropy": entropy(np.bincount(ids)),
        "scratch": record(GPT(config, random_source), ids, 300, 1e-3), "pretrained": record(trained, ids, 100, 1e-4),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
