"""The way of text to batches beside Hugging Face `datasets` and PyTorch's DataLoader: same text, tokenizer and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mindport import sources
from mindport.errors import FileError
from mindport.tuning.case import Case
from mindport.tuning.contestant import Contestant
from mindport.tuning.race import Plan, race

OURS, PEER = "mindport.tuning.data_ours", "mindport.tuning.torch_peer_data"
TEXT = {"documents": 12_000, "tokens": 512, "rows": 8}  # 24 MB
QUICK = {"documents": 40, "tokens": 64, "rows": 4}
EQUAL = {"": 1e-12}  # of every id its number, and every row: no matter in which order
AIM = 1.0
PREPARING, READING = "datasets: map, save_to_disk", "datasets, DataLoader"


def cases(quick: bool = False) -> Iterator[Case]:
    """Text to rows on the disk, then rows to shuffled batches."""
    text = {**(QUICK if quick else TEXT), "model": _model(quick)}
    prepare = (Contestant("mindport", OURS, "prepare_rows", text), Contestant(PREPARING, PEER, "prepare_rows", text))
    yield timed("tokenise, pack, write", prepare, {PREPARING: AIM}, 3, quick)
    read = (
        Contestant("mindport", OURS, "read_batches", text),
        Contestant(READING, PEER, "read_batches", text),
        Contestant("MindDataset", OURS, "read_mind_dataset", text),
    )
    yield timed("read shuffled batches", read, {READING: AIM}, 7, quick)


def timed(name: str, who: Sequence[Contestant], aims: Mapping[str, float], rounds: int, quick: bool) -> Case:
    """One case; its work is the tokens that our contestant counted."""
    plan = Plan(1.0, EQUAL, aims, rounds=2 if quick else rounds, calls=1, warm_up=1, unit="M tokens/s", peaks=False)
    case = race(name, who, replace(plan, threads=1) if quick else plan)
    about: dict[str, Any] = case.about[case.ours]
    return replace(case, work=about["tokens"] / 1e6)


def _model(quick: bool) -> str:
    """SmolLM2's tokenizer, where it is here: a vocabulary as large as is usual."""
    try:
        return str(sources.resolve("tiny-gpt2" if quick else "smollm2"))
    except FileError:
        return str(sources.resolve("tiny-gpt2"))
