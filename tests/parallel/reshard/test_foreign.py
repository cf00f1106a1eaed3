"""Rank folders of MindSpore Transformers: whose names, what is fused, whole or cut by the optimizer is found out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindport.config import ModelConfig, split
from mindport.config.targets import TARGETS
from mindport.errors import FileError, MappingError, MindPortError, UsageError
from mindport.parallel.reshard import reshard
from mindport.parallel.reshard.side import MindSporeSide
from mindport.ranks import Ranks
from mindport.weights import convert, load
from mindport.weights.plan import table
from tests.parallel.reshard.cases import Arrays, arrays_of, moved, rank_arrays, same, write_ranks
from tests.weights.models import make

ENDS = {"embed.weight": 0, "position.weight": 0, "norm.weight": -1, "norm.bias": -1, "head.weight": -1}
TABLES = ("model.tok_embeddings.embedding_weight", "lm_head.weight")
CHANGES = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 2}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LLaMA as a Hugging Face directory, and converted for each target."""
    place = tmp_path_factory.mktemp("foreign")
    make(place / "hf", "llama", **CHANGES)
    for target in ("mindspore", "mindformers-llama", "mindformers-mcore"):
        convert(place / "hf", place / target, to=target, progress=False)
    return place


def rank_of(hub: Arrays, config: ModelConfig, target: str, tp: int, tp_rank: int, *, tables: bool) -> Arrays:
    """What a rank of the target's network holds: its own heads and columns, under the target's names.

    Args:
        hub: whole arrays under our names.
        config: the model.
        target: whose names.
        tp, tp_rank: which rank.
        tables: whether the vocabulary is split.
    """
    narrow = replace(config, num_key_value_heads=config.num_key_value_heads // tp)
    held = {}
    for step in table(TARGETS[target].dialect, narrow).steps:
        cuts = [split.part(name, config, Ranks(tp=tp, rank=tp_rank)) for name in step.hub]
        keep = step.hub[0] in ("embed.weight", "head.weight") and not tables
        parts = [hub[name] if keep else hub[name][cut] for name, cut in zip(step.hub, cuts, strict=True)]
        held[step.foreign] = step.layout.to_foreign(parts)
    return held


def in_stage(name: str, target: str, config: ModelConfig, stage: int) -> bool:
    """Whether one of two stages, of a layer each, has a foreign tensor."""
    hub = next(step.hub[0] for step in table(TARGETS[target].dialect, config).steps if step.foreign == name)
    home = int(hub.split(".")[1]) if hub.startswith("blocks.") else ENDS[hub] % 2
    return home == stage


def with_state(arrays: Arrays) -> Arrays:
    """Beside the weights what mindformers' AdamW keeps of them, and a counter."""
    means = {f"adam_{m}.{name}": x * (2 + i) for i, m in enumerate("mv") for name, x in arrays.items()}
    return {**arrays, **means, "global_step": np.array([100], np.int32)}


def test_a_training_of_the_legacy_network_becomes_one_directory_and_another_layout(model: Path, tmp_path: Path) -> None:
    """Pipeline and tensor parallel, a vocabulary that stays whole, state, several checkpoints in a folder, .ckpt."""
    target, config, hub = "mindformers-llama", load(model / "mindspore").config, arrays_of(model / "mindspore")
    whole = with_state(arrays_of(model / target))
    ranks = []
    for rank in range(4):
        held = rank_of(hub, config, target, 2, rank % 2, tables=False)
        ranks.append(with_state({n: x for n, x in held.items() if in_stage(n, target, config, rank // 2)}))
    write_ranks(tmp_path / "src", ranks)
    write_ranks(tmp_path / "old", [{"x": np.zeros(3, np.float32)}] * 4, "net_rank_{}-1_9.safetensors")
    for rank in range(4):
        old = next((tmp_path / f"old/rank_{rank}").iterdir())
        old.rename(tmp_path / f"src/rank_{rank}" / old.name)
    options: dict[str, Any] = {"layout": "tp2,pp2", "model": model / "hf"}
    result = moved(tmp_path / "src", tmp_path / "dp2", "dp2,zero1", file_format="ckpt", **options)
    assert result.names == target and any("newest" in note and "1_10" in note for note in result.notes)
    moved(tmp_path / "dp2", tmp_path / "whole", "dp1")
    assert same(arrays_of(tmp_path / "whole"), whole)
    convert(tmp_path / "whole", tmp_path / "hf", to="huggingface", progress=False)
    assert same(arrays_of(tmp_path / "hf"), arrays_of(model / "hf"))
    moved(tmp_path / "whole", tmp_path / "again", "tp2,pp2")
    assert all(map(same, rank_arrays(tmp_path / "again"), ({k: v for k, v in r.items() if "." in k and not
               k.startswith("adam_")} for r in ranks)))  # fmt: skip


def test_the_mcore_network_with_its_weights_cut_by_the_optimizer(model: Path, tmp_path: Path) -> None:
    """Fused q, k, v; interleaved gate and up; a vocabulary that is split; enable_parallel_optimizer, which is zero3."""
    target, config, hub = "mindformers-mcore", load(model / "mindspore").config, arrays_of(model / "mindspore")
    whole = arrays_of(model / target)
    ranks = []
    for rank in range(4):
        held = rank_of(hub, config, target, 2, rank % 2, tables=True)
        cut = {name: np.split(x, 2)[rank // 2] if x.ndim > 1 else x for name, x in held.items()}
        ranks.append(cut)
    write_ranks(tmp_path / "src", ranks)
    moved(tmp_path / "src", tmp_path / "dp1", "dp1", layout="dp2,tp2,zero3", model=model / "hf")
    assert same(arrays_of(tmp_path / "dp1"), whole)
    moved(tmp_path / "dp1", tmp_path / "tp2", "tp2")
    for rank, held in enumerate(rank_arrays(tmp_path / "tp2")):
        assert same(held, rank_of(hub, config, target, 2, rank, tables=True))


@pytest.mark.parametrize(("tables", "said"), [(False, {}), (True, {"vocabulary": "split"})])
def test_shapes_do_not_tell_who_cut_a_vocabulary(
    model: Path, tmp_path: Path, tables: bool, said: dict[str, str]
) -> None:
    """Whole and then cut by all four ranks, or split by two and then cut by two copies: parts of one shape."""
    target, config, hub = "mindformers-llama", load(model / "mindspore").config, arrays_of(model / "mindspore")
    ranks = []
    for rank in range(4):
        held = rank_of(hub, config, target, 2, rank % 2, tables=tables)
        names = {name: (4, rank) if name in TABLES and not tables else (2, rank // 2) for name in held}
        ranks.append({n: np.split(x, names[n][0])[names[n][1]] if x.ndim > 1 else x for n, x in held.items()})
    write_ranks(tmp_path / "src", ranks)
    options: dict[str, Any] = {"layout": "dp2,tp2,zero3", "model": model / "hf", "vocabulary": None, **said}
    result = moved(tmp_path / "src", tmp_path / "dp1", "dp1", **options)
    assert any("shapes do not tell" in note for note in result.notes)
    assert same(arrays_of(tmp_path / "dp1"), arrays_of(model / target))
    options["vocabulary"] = "whole" if tables else "split"
    moved(tmp_path / "src", tmp_path / "wrong", "dp1", **options)
    assert not same(arrays_of(tmp_path / "wrong"), arrays_of(model / target))


def test_what_does_not_fit_is_refused(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MindSporeSide, "ask", lambda *_, **__: pytest.fail("asked"))
    config, hub = load(model / "mindspore").config, arrays_of(model / "mindspore")
    ranks = [rank_of(hub, config, "mindformers-mcore", 2, rank, tables=True) for rank in range(2)]
    make(tmp_path / "other", "llama", **{**CHANGES, "hidden_size": 20})
    make(tmp_path / "fewer", "llama", **{**CHANGES, "num_hidden_layers": 3})
    good = write_ranks(tmp_path / "good", ranks)
    uneven = write_ranks(tmp_path / "uneven", [ranks[0], {**ranks[1], "output_layer.weight": np.ones((3, 24), "f")}])
    lone = write_ranks(tmp_path / "lone", ranks[:1])
    steps = write_ranks(tmp_path / "steps", ranks)
    path = steps / "rank_1/net_rank_1-1_10.safetensors"
    path.rename(path.with_name("net_rank_1-1_20.safetensors"))
    empty = write_ranks(tmp_path / "empty", ranks)
    next((empty / "rank_1").iterdir()).unlink()
    hf = model / "hf"
    refused: tuple[tuple[Path, str | None, Path | None, type[MindPortError], str], ...] = (
        (good, None, hf, UsageError, "do not say"),
        (good, "tp2", None, UsageError, "do not say"),
        (good, "dp2,tp2", hf, FileError, "not those of the layout"),
        (good, "dp2", hf, MappingError, "no way to cut"),
        (good, "dp2,zero1", hf, MappingError, "no way to cut"),
        (good, "tp2", tmp_path / "other", MappingError, "no way to cut"),
        (good, "tp2", tmp_path / "fewer", MappingError, "nobody's"),
        (uneven, "tp2", hf, FileError, "does not hold"),
        (lone, "tp2", hf, FileError, "not those of the layout"),
        (steps, "tp2", hf, FileError, "different steps"),
        (empty, "tp2", hf, FileError, "holds no checkpoint"),
    )
    for src, layout, said_model, error, said in refused:
        with pytest.raises(error, match=said):
            reshard(src, tmp_path / "out", "dp1", layout, model=said_model, progress=False)
    assert not (tmp_path / "out").exists()
