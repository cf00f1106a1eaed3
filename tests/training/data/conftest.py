"""Text, and the bundled models whose tokenizers it goes through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindport import sources
from mindport.training.config import DataConfig
from mindport.training.data import open_data, prepare

VOCABULARY = {"tiny-gpt2": 512, "tiny-llama": 768}


@pytest.fixture(params=VOCABULARY)
def model(request) -> str:
    return request.param


@pytest.fixture
def write(tmp_path):
    """Write documents as .jsonl, the others by their suffix; returns the path as the configuration has it."""

    def write(name: str, content: object) -> str:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in content))
        else:
            path.write_text(str(content))
        return str(path)

    return write


@pytest.fixture
def made(tmp_path):
    """`prepare` and `open_data` for a bundled model."""

    def made(model: str = "tiny-gpt2", out: str = "rows", seed: int = 1, **config):
        directory, folder = sources.resolve(model), tmp_path / out
        settings = {name: tuple(v) if isinstance(v, list) else v for name, v in config.items()}
        report = prepare(
            DataConfig(**settings), directory, folder, vocab_size=VOCABULARY[model], seed=seed, progress=False
        )
        return report, opened(folder, model)

    return made


def opened(folder: Path, model: str = "tiny-gpt2", **other):
    """A prepared directory."""
    tokenizer = other.pop("tokenizer", sources.resolve(model) / "tokenizer.json")
    return open_data(folder, tokenizer=tokenizer, vocab_size=other.pop("vocab_size", VOCABULARY[model]), **other)


def documents(count: int, start: int = 0) -> list[dict[str, str]]:
    """Texts that are all different, of different lengths."""
    text = sources.corpus().read_text()
    return [{"text": f"{n} {text[500 * n : 500 * n + 40 + 97 * n % 400]}"} for n in range(start, start + count)]
