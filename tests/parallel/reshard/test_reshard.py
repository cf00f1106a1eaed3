"""Round trips through MindSpore, bit for bit, and every rank against the schema, without the code under test."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

from mindport import cli
from mindport.config import split
from mindport.files import read_json
from mindport.ranks import Ranks
from mindport.training.checkpoint import read_checkpoint, read_record
from mindport.weights import convert, load
from tests.parallel.reshard.cases import arrays_of, moved, over, rank_arrays, same, share, stage_of
from tests.training.checkpoint import ranks as processes
from tests.training.checkpoint.runs import converted, snapshot
from tests.weights.models import LLAMA, save, tensors_of

pytestmark = pytest.mark.slow


def test_a_training_goes_through_every_kind_of_layout_and_comes_back(training: Path, tmp_path: Path) -> None:
    """Tied embeddings on both ends of the pipeline, means with their weights, counters everywhere."""
    whole, before = arrays_of(training), training
    for number, layout in enumerate(("dp2,tp2", "tp2", "tp2,pp2", "dp2,tp2,pp2,zero1", "dp1")):
        result = moved(before, tmp_path / str(number), layout)
        assert (result.arrays, result.state) == (len(whole), len(whole) - len(load(training)))
        before = result.target
        if layout == "tp2,pp2":
            _check_pipeline(before, whole, training)
        if layout.endswith("zero1"):
            _check_zero(before, whole)
    assert same(arrays_of(before), whole)
    saved = read_checkpoint(before)
    assert (saved.step, saved.loss, saved.about) == (5, 2.5, read_checkpoint(training).about)


def test_a_checkpoint_in_shares_does_not_call_itself_one_any_more(tmp_path: Path) -> None:
    """Or what comes of it with `--to dp1` would name files that nobody wrote."""
    source = converted(tmp_path / "model", "gpt2", vocab_size=38)
    whole, told = snapshot(source, 5), processes.shares(1, 2)
    with processes.ranks(tmp_path / "checkpoints", source, told) as every:
        path = processes.save(every, told, whole)
    moved(path, tmp_path / "dp2", "dp2")
    assert read_record(path).is_sharded and not read_record(tmp_path / "dp2/origin").is_sharded
    for held in rank_arrays(tmp_path / "dp2"):
        assert same(held, {**whole.weights, **whole.state})


def _check_pipeline(directory: Path, whole: dict[str, np.ndarray], training: Path) -> None:
    for rank, held in enumerate(rank_arrays(directory)):
        meant = {name: share(name, x, training, 2, rank % 2) for name, x in whole.items()
                 if rank // 2 in stage_of(name, (2, 1), tied=True)}  # fmt: skip
        assert same(held, meant), f"rank {rank}"
        assert {"embed.weight", "adam.m.embed.weight", "adam.step"} <= held.keys()


def _check_zero(directory: Path, whole: dict[str, np.ndarray]) -> None:
    """Weights are not cut for the copies, means are: a table once for two copies, what tp leaves whole for all four."""
    ranks = rank_arrays(directory)
    name, rows = "blocks.0.mlp.up.weight", whole["blocks.0.mlp.up.weight"].shape[0]
    assert [len(held[name]) for held in ranks[:4]] == [rows // 2] * 4
    assert [len(held[f"adam.m.{name}"]) for held in ranks[:4]] == [rows // 4] * 4
    assert len(ranks[3]["adam.m.blocks.0.norm1.weight"]) * 4 == len(ranks[3]["blocks.0.norm1.weight"])
    parts = [ranks[rank][f"adam.m.{name}"] for rank in (0, 2, 1, 3)]  # each share of tp is cut by the copies
    assert np.array_equal(np.concatenate(parts), whole[f"adam.m.{name}"])


def test_bfloat16_goes_through_and_back_to_hugging_face(halves: Path, llama: Path, tmp_path: Path) -> None:
    model, whole = load(llama).config, arrays_of(llama)
    assert {str(x.dtype) for x in whole.values()} == {"bfloat16"}
    for rank, held in enumerate(rank_arrays(halves)):  # what our own model holds on these ranks
        ranks = Ranks(dp=2, tp=2, rank=rank)
        assert same(held, {name: x[split.part(name, model, ranks)] for name, x in whole.items()})
    moved(halves, tmp_path / "pp", "dp3,pp3,zero3,cp1")
    moved(tmp_path / "pp", tmp_path / "ms", "dp1")
    assert same(arrays_of(tmp_path / "ms"), whole)
    convert(tmp_path / "ms", tmp_path / "hf", to="huggingface", progress=False)
    convert(llama, tmp_path / "meant", to="huggingface", progress=False)
    assert (tmp_path / "hf/model.safetensors").read_bytes() == (tmp_path / "meant/model.safetensors").read_bytes()


def test_any_bits_pass_through_both_of_mindspores_formats(tmp_path: Path) -> None:
    """bfloat16 of random bits: not-a-numbers with their payload, infinities, negative zeros. (MindSpore's transform of
    .ckpt files would go by way of float32; it is never asked for that.)"""
    raw = {**LLAMA, "num_hidden_layers": 2}
    bits = {name: np.random.default_rng(len(name)).integers(0, 1 << 16, x.shape, np.uint16).view(ml_dtypes.bfloat16)
            for name, x in tensors_of(raw, tmp_path / "hf").items()}  # fmt: skip
    convert(save(tmp_path / "hf", raw, bits), tmp_path / "ms", progress=False)
    result = moved(tmp_path / "ms", tmp_path / "ckpt", "tp2,dp2,zero3", file_format="ckpt")
    assert [file.file for file in result.files] == [f"rank_{rank}/checkpoint_{rank}.ckpt" for rank in range(4)]
    moved(tmp_path / "ckpt", tmp_path / "back", "dp1")
    assert same(arrays_of(tmp_path / "back"), arrays_of(tmp_path / "ms"))
    assert any("41 rows do not divide by 2" in note for note in result.notes)


def test_weights_alone(training: Path, tmp_path: Path) -> None:
    result = moved(training, tmp_path / "dp2", "dp2,zero1", weights_only=True)
    assert result.state == 0 and any("left behind" in note for note in result.notes)
    moved(tmp_path / "dp2", tmp_path / "ms", "dp1")
    assert load(tmp_path / "ms").manifest.steps == 5
    assert not (tmp_path / "ms/training.json").exists()
    assert same(arrays_of(tmp_path / "ms"), load_file(training / "model.safetensors"))


def test_the_command_answers_in_json_and_says_what_one_would_not_expect(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    assert cli.main(["reshard", str(llama), str(target), "--to", "dp2,cp2,sp,mb4,zero1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] and answer["compared"] == 4 * answer["arrays"]
    said = " ".join(answer["notes"])
    assert all(word in said for word in ("4 folders", "sp, recompute and mb", "zero3 only", "optimizer_level"))
    told = read_json(target / "mindport-reshard.json")
    assert told["layout"] == "dp2,tp1,pp1,cp2,zero1,sp,mb4"
    assert told["source"]["files"].keys() == {"model.safetensors"}
    assert {"strategy.ckpt", "strategy/ckpt_strategy_rank_0.ckpt", "origin/mindport.json"} <= told["files"].keys()
    assert len(told["ranks"]) == over("dp2,cp2").ranks
