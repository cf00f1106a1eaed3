"""Conversion beside a plain copy of the same bytes: what the accounting and the read-back cost."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from mindport import weights
from mindport.config import dialect_for, from_dict
from mindport.config.write import to_huggingface
from mindport.tuning.harness import Case, compare
from mindport.weights.plan import foreign_shapes, table

LAYERS = 12  # 0.5 GB in float16: long enough to time, short enough for any disk
MODEL = {
    "model_type": "llama", "vocab_size": 32000, "hidden_size": 1024, "num_hidden_layers": LAYERS,
    "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 4096,
    "max_position_embeddings": 2048, "hidden_act": "silu", "gated_mlp": True, "norm": "rms", "norm_eps": 1e-5,
    "position": "rope", "rope": {"rope_theta": 10000.0}, "qkv_bias": False, "attention_out_bias": False,
    "mlp_bias": False, "tie_word_embeddings": False,
}  # fmt: skip


def cases() -> list[Case]:
    """HF → MindSpore and back, on random weights in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="mindport-bench-") as folder:
        source, target, back, copy = (Path(folder) / name for name in ("source", "target", "back", "copy"))
        _write_model(source)
        size = sum(file.stat().st_size for file in source.glob("*.safetensors")) / 1e6
        to = {"mindport": lambda: _convert(source, target, "mindspore"), "plain copy": lambda: _copy(source, copy)}
        there = compare("to mindspore", to, work=size, unit="MB/s")
        fro = {"mindport": lambda: _convert(target, back, "huggingface"), "plain copy": lambda: _copy(target, copy)}
        return [there, compare("to huggingface", fro, work=size, unit="MB/s")]


def _convert(source: Path, target: Path, to: str) -> None:
    weights.convert(source, target, to=to, overwrite=True, progress=False)


def _copy(source: Path, target: Path) -> None:
    """Copy and flush to the disk, as the converter does."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    for file in target.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


def _write_model(directory: Path) -> None:
    """A random LLaMA under Hugging Face names."""
    from safetensors.numpy import save_file

    config, random = from_dict(MODEL), np.random.default_rng(0)
    shapes = foreign_shapes(table(dialect_for(config.model_type), config))
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(to_huggingface(config)))
    tensors = {name: random.standard_normal(shape, "f4").astype("f2") for name, shape in shapes.items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
