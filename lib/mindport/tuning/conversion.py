"""Conversion beside a plain copy of the same bytes: what the accounting and the read-back cost.

The model is a LLaMA of 8 GB in float16, in two shards, made for this and removed afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mindport import weights
from mindport.config import dialect_for, from_dict
from mindport.config.write import to_huggingface
from mindport.errors import BackendError, FileError
from mindport.tuning.case import Case, Memory
from mindport.tuning.harness import compare
from mindport.weights.plan import foreign_shapes, table
from mindport.weights.writers import SafetensorsFiles, new_layout

MODEL = {
    "model_type": "llama", "vocab_size": 32000, "hidden_size": 2048, "num_hidden_layers": 63,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192,
    "max_position_embeddings": 2048, "hidden_act": "silu", "gated_mlp": True, "norm": "rms", "norm_eps": 1e-5,
    "position": "rope", "rope": {"rope_theta": 10000.0}, "qkv_bias": False, "attention_out_bias": False,
    "mlp_bias": False, "tie_word_embeddings": False,
}  # fmt: skip
QUICK = {"num_hidden_layers": 2, "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96}
REPEATS = 3
BLOCK = 1 << 25  # random numbers that the tensors are made of
FINITE = 0xBBFF  # float16 bits without one of the exponent's: no NaN, no infinity
PEAK = (
    "import sys; from mindport import weights; from mindport.measure.memory import peak\n"
    "before = peak()\n"
    "weights.convert(sys.argv[1], sys.argv[2], overwrite=True, progress=False)\n"
    "print(before, peak())"
)


def cases(quick: bool = False) -> Iterator[Case]:
    """HF → MindSpore and back, in a temporary directory; the first case has the peak memory of a process of its own."""
    model, repeats = ({**MODEL, **QUICK}, 1) if quick else (MODEL, REPEATS)
    with tempfile.TemporaryDirectory(prefix="mindport-bench-") as folder:
        source, target, back, copy = (Path(folder) / name for name in ("source", "target", "back", "copy"))
        size = _write_model(source, model) / 1e6
        to = {"mindport": lambda: _convert(source, target, "mindspore"), "plain copy": lambda: _copy(source, copy)}
        memory = {"mindport": _peak(source, target)}
        yield compare("to mindspore", to, work=size, unit="MB/s", repeats=repeats, memory=memory)
        fro = {"mindport": lambda: _convert(target, back, "huggingface"), "plain copy": lambda: _copy(target, copy)}
        shutil.rmtree(source)  # the disk holds three such directories at most
        yield compare("to huggingface", fro, work=size, unit="MB/s", repeats=repeats)


def _convert(source: Path, target: Path, to: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    weights.convert(source, target, to=to, progress=False)


def _copy(source: Path, target: Path) -> None:
    """Copy and flush to the disk, as the converter does."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    for file in target.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


def _peak(source: Path, target: Path) -> Memory:
    """Of a conversion in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(source), str(target)], capture_output=True, text=True)
    if done.returncode:
        raise BackendError("the conversion failed", got=done.stderr.strip().splitlines()[-1:])
    before, peak = map(float, done.stdout.split())
    return Memory(before, peak)


def _write_model(directory: Path, model: dict[str, Any]) -> int:
    """A random LLaMA under Hugging Face names, in shards; returns its bytes."""
    config = from_dict(model)
    shapes = foreign_shapes(table(dialect_for(config.model_type), config))
    layout = new_layout({name: ("F16", shape) for name, shape in shapes.items()}, {"format": "pt"})
    if (free := shutil.disk_usage(directory.parent).free) < 3.2 * layout.nbytes:
        raise FileError("the disk cannot hold the benchmark", where=directory.parent, got=f"{free / 1e9:.1f} GB free",
                        expected=f"{3.2 * layout.nbytes / 1e9:.1f} GB")  # fmt: skip
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(to_huggingface(config)))
    block = (np.random.default_rng(0).integers(0, 2**16, BLOCK, np.uint16) & FINITE).view(np.float16)
    writer = SafetensorsFiles(directory, layout)
    for name, shape in shapes.items():
        writer.write(name, np.resize(block, shape))
    writer.close()
    return layout.nbytes
