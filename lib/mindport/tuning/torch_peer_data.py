"""The peers of the data benchmark: Hugging Face `datasets` and PyTorch's DataLoader, each as fast as it is sanely set.

Tokenised by `tokenizers` itself, in batches, in as many processes as there are cores, without a Python list of a list
on the way; packed with whole-array arithmetic; read without worker processes where these only cost (measured: 16
million tokens/s with none, 3 with one or two), a whole batch a time, as NumPy views.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from tokenizers import Tokenizer
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from mindport.files import read_json
from mindport.tuning.contestant import Built
from mindport.tuning.data_text import COLUMN, SEED, census, write_documents

OUT, CACHE = Path("rows"), Path("cache")
datasets.disable_progress_bars()
datasets.disable_caching()


def prepare_rows(*, documents: int, tokens: int, rows: int, model: str) -> Built:
    """Text to rows on the disk: `load_dataset`, `map`, packed, `save_to_disk`."""
    text, pad = write_documents(Path("text.jsonl"), documents), _eos(model)
    tokenise = _Tokenise(model)

    def run() -> None:
        for folder in (OUT, CACHE):
            shutil.rmtree(folder, ignore_errors=True)
        loaded = datasets.load_dataset("json", data_files=str(text), split="train", cache_dir=str(CACHE))
        cores = int(os.environ.get("OMP_NUM_THREADS", 1))
        done = loaded.map(tokenise, batched=True, num_proc=cores, remove_columns=loaded.column_names)
        stream = np.concatenate([chunk.flatten().to_numpy() for chunk in done.data.column("ids").chunks])
        packed = np.pad(stream, (0, -len(stream) % tokens), constant_values=pad).reshape(-1, tokens)
        features = datasets.Features({"ids": datasets.Sequence(datasets.Value("int32"), length=tokens)})
        datasets.Dataset.from_dict({"ids": packed}, features=features).save_to_disk(str(OUT))

    run()
    return Built(run, lambda: census([_rows()[:]["ids"]]), {"rows": len(_rows())})


def read_batches(*, documents: int, tokens: int, rows: int, model: str) -> Built:
    """Rows to shuffled batches of tensors: a DataLoader over the dataset, a batch an access."""
    prepare_rows(documents=documents, tokens=tokens, rows=rows, model=model)
    data = Rows()

    def batches() -> Iterator[np.ndarray]:
        generator = torch.Generator()
        generator.manual_seed(SEED)
        sampler = BatchSampler(RandomSampler(data, generator=generator), rows, drop_last=False)
        for ids in DataLoader(data, batch_size=None, sampler=sampler):
            yield ids.numpy()

    def run() -> None:
        for ids in batches():
            ids[-1, -1]

    return Built(run, lambda: census(batches()), {"rows": len(data)})


class Rows(torch.utils.data.Dataset):
    """The dataset by lists of row numbers."""

    def __init__(self) -> None:
        self.data = datasets.load_from_disk(str(OUT)).with_format("numpy")

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, rows: list[int]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(self.data[rows]["ids"]))


class _Tokenise:
    """Texts to ids, each document ended by EOS."""

    def __init__(self, model: str) -> None:
        self.tokenizer, self.eos = Tokenizer.from_file(str(Path(model) / "tokenizer.json")), _eos(model)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[np.ndarray]]:
        found = self.tokenizer.encode_batch_fast(batch[COLUMN])
        return {"ids": [np.array([*encoding.ids, self.eos], np.int32) for encoding in found]}


def _rows() -> datasets.Dataset:
    return datasets.load_from_disk(str(OUT)).with_format("numpy")


def _eos(model: str) -> int:
    return read_json(Path(model) / "config.json")["eos_token_id"]
