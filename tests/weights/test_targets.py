"""Hugging Face → MindSpore Transformers → anywhere: by value, with accounts that close, and back byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from mindport import cli
from mindport.config import DIALECTS
from mindport.config.targets import TARGETS
from mindport.errors import ConfigError, FileError, MappingError, UsageError
from mindport.weights import convert, load, open_converted, rename_table
from mindport.weights.companions import EXPORT_MARK
from mindport.weights.jobs import moves
from mindport.weights.manifest import NAME, read_manifest
from mindport.weights.plan import Step
from tests.weights.models import LLAMA, config_of, make

WAYS = [
    ("llama", "mindformers-llama", {"hidden_size": 24}),
    ("llama", "mindformers-llama", {"hidden_size": 24, "tie_word_embeddings": True}),
    ("llama", "mindformers-llama", {"hidden_size": 24, "attention_bias": True}),
    ("llama", "mindformers-llama-concat", {"hidden_size": 24, "attention_bias": True}),
    ("llama", "mindformers-mcore", {"dtype": "float32"}),
    ("gpt2", "mindformers-gpt2", {}),
]


def _files(directory: Path) -> dict[str, bytes]:
    marks = {NAME, EXPORT_MARK}
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name not in marks}


def test_keys_let_pass_go_along_and_the_original_is_left_alone(tmp_path: Path) -> None:
    source = make(tmp_path / "hf", "llama")
    config = source / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"colour": "red"}))
    convert(source, tmp_path / "ms", progress=False, allow=["colour"])
    convert(tmp_path / "ms", tmp_path / "mf", to="mindformers-mcore", progress=False)
    assert read_manifest(tmp_path / "mf").allowed == ["colour"]
    with pytest.raises(UsageError, match="lie apart"):
        convert(tmp_path / "ms", source / "mf", to="mindformers-mcore", progress=False)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("family", "target", "changes"), WAYS)
def test_there_and_back_is_byte_for_byte(
    family: str, target: str, changes: dict[str, Any], shards: int, tmp_path: Path
) -> None:
    source = make(tmp_path / "hf", family, shards, **changes)
    there = convert(source, tmp_path / "mf", to=target, progress=False)
    back = convert(tmp_path / "mf", tmp_path / "back", to="huggingface", progress=False)
    assert there.ok and back.ok, (there.text(), back.text())
    assert _files(tmp_path / "back") == _files(source)
    assert read_manifest(tmp_path / "mf").target == target
    assert {fate.fate for fate in there.fates} == {"converted"} and all(fate.targets for fate in there.fates)


@pytest.mark.parametrize(("family", "target", "changes"), WAYS)
def test_both_ways_to_a_target_and_home_give_the_same_files(
    family: str, target: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    source = make(tmp_path / "hf", family, **changes)
    convert(source, tmp_path / "ours", progress=False)
    convert(source, tmp_path / "straight", to=target, progress=False)
    assert convert(tmp_path / "ours", tmp_path / "over", to=target, progress=False).ok
    assert convert(tmp_path / "straight", tmp_path / "home", to="mindspore", progress=False).ok
    tensors = [load_file(tmp_path / name / "model.safetensors") for name in ("straight", "over", "ours", "home")]
    for one, other in (tensors[:2], tensors[2:]):
        assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    assert load(tmp_path / "home").manifest.rewritten == {}
    assert (tmp_path / "home/config.json").read_bytes() == (source / "config.json").read_bytes()


def test_values_of_mcore_by_hand(tmp_path: Path) -> None:
    source = load_file(make(tmp_path / "hf", "llama") / "model.safetensors")
    convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-mcore", progress=False)
    ours = load_file(tmp_path / "mf/model.safetensors")
    q, k, v = (source[f"model.layers.1.self_attn.{x}_proj.weight"] for x in "qkv")  # 4 and 2 heads of 6
    qkv = np.concatenate([q[:12], k[:6], v[:6], q[12:], k[6:], v[6:]])
    assert np.array_equal(ours["decoder.layers.1.self_attention.linear_qkv.weight"], qkv)
    fc1 = ours["decoder.layers.1.mlp.linear_fc1.weight"]
    assert np.array_equal(fc1[0::2], source["model.layers.1.mlp.gate_proj.weight"])
    assert np.array_equal(fc1[1::2], source["model.layers.1.mlp.up_proj.weight"])
    assert not np.array_equal(fc1[0::2], source["model.layers.1.mlp.up_proj.weight"])


def test_values_of_gpt2_by_hand(tmp_path: Path) -> None:
    source = load_file(make(tmp_path / "hf", "gpt2") / "model.safetensors")
    convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-gpt2", progress=False)
    ours = load_file(tmp_path / "mf/model.safetensors")
    fused = source["transformer.h.2.attn.c_attn.weight"]  # [in, q + k + v]
    for i in range(3):
        dense = f"backbone.blocks.2.attention.dense{i + 1}."
        assert np.array_equal(ours[dense + "weight"], fused[:, 24 * i : 24 * (i + 1)].T)
        bias = source["transformer.h.2.attn.c_attn.bias"][24 * i : 24 * (i + 1)]
        assert np.array_equal(ours[dense + "bias"], bias)
    for name, foreign in (("attention.projection", "attn.c_proj"), ("output.mapping", "mlp.c_fc"),
                          ("output.projection", "mlp.c_proj")):  # fmt: skip
        conv1d = source[f"transformer.h.2.{foreign}.weight"]
        assert np.array_equal(ours[f"backbone.blocks.2.{name}.weight"], conv1d)


@given(kv=st.sampled_from([1, 2, 4]), head=st.sampled_from([2, 4]), layers=st.integers(1, 3), tied=st.booleans())
@settings(max_examples=8, deadline=None)
def test_any_heads_there_and_back(
    tmp_path_factory: pytest.TempPathFactory, kv: int, head: int, layers: int, tied: bool
) -> None:
    place = tmp_path_factory.mktemp("any")
    changes = {"num_key_value_heads": kv, "head_dim": head, "num_hidden_layers": layers, "tie_word_embeddings": tied}
    source = make(place / "hf", "llama", **changes)
    convert(source, place / "mf", to="mindformers-mcore", progress=False)
    convert(place / "mf", place / "back", to="huggingface", progress=False)
    assert _files(place / "back") == _files(source)


def test_moves_are_the_smallest_groups() -> None:
    def step(hub: str, foreign: str) -> Step:
        names = tuple(hub.split())
        return Step(names, foreign, None, ((1,),) * len(names))  # type: ignore[arg-type]

    fused, split = [step("q k v", "c_attn"), step("o", "c_proj")], [step(x, "w" + x) for x in "qkvo"]
    found = {(move.sources, move.targets) for move in moves(fused, split)}
    assert found == {(("c_attn",), ("wq", "wk", "wv")), (("c_proj",), ("wo",))}
    pairs = moves([step("a b", "ab"), step("c", "c")], [step("b c", "bc"), step("a", "a")])
    assert [(move.sources, move.targets) for move in pairs] == [(("ab", "c"), ("bc", "a"))]


def test_config_json_is_written_for_the_peer_and_comes_back_as_it_was(tmp_path: Path) -> None:
    source = make(tmp_path / "hf", "llama", dtype="float32")
    convert(source, tmp_path / "mf", to="mindformers-mcore", progress=False)
    written = json.loads((tmp_path / "mf/config.json").read_text())
    assert written["torch_dtype"] == "float32" and "dtype" not in written
    convert(tmp_path / "mf", tmp_path / "back", to="huggingface", progress=False)
    assert (tmp_path / "back/config.json").read_bytes() == (source / "config.json").read_bytes()


def test_what_the_target_cannot_hold_leaves_nothing_behind(tmp_path: Path) -> None:
    make(tmp_path / "hf", "gpt2")
    with pytest.raises(ConfigError, match="mindformers-mcore cannot hold this model"):
        convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-mcore", progress=False)
    convert(tmp_path / "hf", tmp_path / "ours", progress=False)
    with pytest.raises(ConfigError, match="RMS norm"):
        convert(tmp_path / "ours", tmp_path / "mf", to="mindformers-llama", progress=False)
    assert not (tmp_path / "mf").exists()


def test_wrong_turns_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "hf", "llama")
    convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-mcore", progress=False)
    with pytest.raises(UsageError, match="converted already"):
        convert(tmp_path / "mf", tmp_path / "again", to="mindformers-mcore", progress=False)
    with pytest.raises(UsageError, match="no such to"):
        convert(tmp_path / "hf", tmp_path / "x", to="mindformers", progress=False)
    with pytest.raises(FileError, match=r"names of mindformers-mcore(.|\n)*--to mindspore"):
        load(tmp_path / "mf")


def test_parts_of_several_precisions_are_not_joined(tmp_path: Path) -> None:
    source = make(tmp_path / "hf", "llama")
    tensors = load_file(source / "model.safetensors")
    tensors["model.layers.1.self_attn.k_proj.weight"] = tensors["model.layers.1.self_attn.k_proj.weight"].astype("f2")
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(MappingError, match=r"several precisions(.|\n)*k_proj.weight F16"):
        convert(source, tmp_path / "mf", to="mindformers-mcore", progress=False)
    assert convert(source, tmp_path / "mf", to="mindformers-mcore", dtype="float32", progress=False).ok


@pytest.mark.parametrize("fault", ["bytes", "target", "name"])
def test_a_spoiled_directory_is_not_opened(fault: str, tmp_path: Path) -> None:
    make(tmp_path / "hf", "llama")
    convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-mcore", progress=False)
    manifest = tmp_path / "mf/mindport.json"
    if fault == "bytes":
        data = bytearray((tmp_path / "mf/model.safetensors").read_bytes())
        data[-1] ^= 1
        (tmp_path / "mf/model.safetensors").write_bytes(data)
    else:
        value = json.loads(manifest.read_text())
        value["target"] = {"target": "mindformers-of-tomorrow", "name": "mindformers-llama"}[fault]
        manifest.write_text(json.dumps(value))
    expected = {"bytes": "changed", "target": "does not know", "name": "do not make the model"}[fault]
    with pytest.raises((FileError, MappingError), match=expected):
        open_converted(tmp_path / "mf")


def test_the_table_of_renames(tmp_path: Path) -> None:
    config = config_of({**LLAMA, "hidden_size": 24}, tmp_path)
    rows = {row[0]: row[1:] for row in rename_table(DIALECTS["llama"], TARGETS["mindformers-llama"], config).rows}
    assert rows["model.layers.{}.self_attn.q_proj.weight"] == ("same", "model.layers.{}.attention.wq.weight")
    assert len(rows) == 12
    rows = {row[0]: row[1:] for row in rename_table(DIALECTS["llama"], TARGETS["mindformers-mcore"], config).rows}
    qkv = ", ".join(f"model.layers.{{}}.self_attn.{x}_proj.weight" for x in "qkv")
    assert rows[qkv] == ("grouped_qkv", "decoder.layers.{}.self_attention.linear_qkv.weight")
    with pytest.raises(ConfigError, match="cannot hold"):
        rename_table(DIALECTS["llama"], TARGETS["mindformers-gpt2"], config)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "hf", "gpt2")
    assert cli.main(["convert", str(tmp_path / "hf"), str(tmp_path / "mf"), "--to", "mindformers-gpt2"]) == 0
    assert "accounting closes" in capsys.readouterr().out
    assert cli.main(["convert", str(tmp_path / "mf"), str(tmp_path / "back"), "--to", "huggingface"]) == 0
    assert cli.main(["convert", str(tmp_path / "hf"), str(tmp_path / "no"), "--to", "mindformers-mcore"]) == 2
    assert "cannot hold" in capsys.readouterr().err
    assert cli.main(["convert", str(tmp_path / "hf"), str(tmp_path / "no"), "--to", "elsewhere"]) == 2
