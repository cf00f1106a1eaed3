"""The views of notebook 02: lists of names, renames, biases, one tensor on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from mindport.config import read_config
from mindport.config.targets import TARGETS
from mindport.errors import UsageError
from mindport.weights import (
    bias_census,
    convert,
    dtype_policy,
    key_difference,
    name_table,
    natural,
    tensor_under_each_name,
)
from tests.weights.models import make


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_raw_lists_differ_and_translated_ones_do_not(family: str, tmp_path: Path) -> None:
    source = make(tmp_path, family)
    raw, renamed = key_difference(source), key_difference(source, renamed=True)
    assert (
        not raw.ok
        and len(raw.only_left) == len(raw.left_names)
        and raw.left_names == tuple(sorted(raw.left_names, key=natural))
    )
    assert renamed.ok and renamed.tables() == () and renamed.only_left == renamed.only_right == ()


def test_the_difference_names_both_sides(tmp_path: Path) -> None:
    source = make(tmp_path)
    tensors = load_file(source / "model.safetensors")
    tensors["model.extra"] = tensors.pop("model.norm.weight")
    save_file(tensors, source / "model.safetensors")
    difference = key_difference(source, renamed=True)
    assert (difference.only_left, difference.only_right) == (("model.extra",), ("model.norm.weight",))
    assert not difference.ok and "1 only in the first, 1 only in the second" in difference.headline()
    assert [table.rows for table in difference.tables()] == [[("model.extra", 1, "model.norm.weight", 1)]]


def test_equal_names_of_all_layers_share_a_row(tmp_path: Path) -> None:
    difference = key_difference(make(tmp_path, "gpt2"))
    rows = {row[0]: row[1] for row in difference.tables()[0].rows}
    assert rows["transformer.h.{}.ln_1.weight"] == 3 and rows["transformer.wte.weight"] == 1
    assert sum(count for count in rows.values() if count) == len(difference.left_names)


def test_the_fates_of_all_layers_share_a_row_and_the_json_keeps_each(tmp_path: Path) -> None:
    report = convert(make(tmp_path / "hf", "gpt2"), tmp_path / "ms", progress=False)
    rows = {row[0]: row for row in report.fate_table().rows}
    fused = rows["transformer.h.{}.attn.c_attn.weight"]
    assert fused[2].split(", ")[0] == "blocks.{}.attn.q.weight" and fused[3] == "split_qkv" and fused[-1] == 3
    assert rows["transformer.wte.weight"][2] == "embed.weight"
    assert sum(row[-1] for row in rows.values()) == len(report.fates) == len(report.as_dict()["fates"])


def test_a_layer_that_is_unlike_its_siblings_keeps_its_name(tmp_path: Path) -> None:
    source = make(tmp_path / "hf")
    tensors = load_file(source / "model.safetensors")
    name = "model.layers.1.self_attn.q_proj.weight"
    tensors[name] = tensors[name].astype("float16")
    save_file(tensors, source / "model.safetensors")
    rows = {row[0]: row[-1] for row in convert(source, tmp_path / "ms", progress=False).fate_table().rows}
    assert (rows[name], rows["model.layers.{}.self_attn.q_proj.weight"]) == (1, 2)


def test_layers_are_sorted_as_numbers() -> None:
    names = ["h.10.a", "h.2.a", "h.2.b", "final", "h.0.a"]
    assert sorted(names, key=natural) == ["final", "h.0.a", "h.2.a", "h.2.b", "h.10.a"]


def test_the_table_of_renames_has_a_row_for_each_kind(tmp_path: Path) -> None:
    report = read_config(make(tmp_path, "gpt2"))
    rows = {row[0]: row[1:] for row in name_table(report.dialect, report.model).rows}
    assert len(rows) == 16
    fused = rows["transformer.h.{}.attn.c_attn.weight"]
    assert fused[:2] == ((24, 72), "split_qkv") and fused[2].count("blocks.{}.attn.") == 3
    assert rows["transformer.h.{}.mlp.c_fc.weight"][1:] == ("transpose", "blocks.{}.mlp.up.weight", (52, 24))


@pytest.mark.parametrize(("family", "biased"), [("gpt2", 7), ("llama", 0)])
def test_the_census_counts_over_the_layers(family: str, biased: int, tmp_path: Path) -> None:
    rows = bias_census(make(tmp_path, family)).rows
    assert [row[3] for row in rows].count("yes") == biased
    assert all(row[1] in (1, 3) for row in rows)


def test_a_bias_that_only_some_layers_have_shows(tmp_path: Path) -> None:
    source = make(tmp_path, "gpt2")
    tensors = load_file(source / "model.safetensors")
    del tensors["transformer.h.1.mlp.c_fc.bias"]
    save_file(tensors, source / "model.safetensors")
    assert ("transformer.h.{}.mlp.c_fc", 3, 2, "some") in bias_census(source).rows


def test_one_tensor_on_both_sides(tmp_path: Path) -> None:
    source = make(tmp_path / "hf", "gpt2")
    convert(source, tmp_path / "ms", progress=False)
    table = tensor_under_each_name(source, tmp_path / "ms", "blocks.1.attn.v.weight")
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == ["Hugging Face", "mindspore", "mindformers-gpt2"]
    assert rows["Hugging Face"][:3] == ("transformer.h.1.attn.c_attn.weight", "split_qkv", (24, 72))
    assert rows["mindspore"][:3] == ("blocks.1.attn.v.weight", "same", (24, 24))
    assert rows["mindformers-gpt2"][0] == "backbone.blocks.1.attention.dense3.weight"
    with pytest.raises(UsageError, match="no such parameter"):
        tensor_under_each_name(source, tmp_path / "ms", "blocks.1.attn.x")


def test_a_tensor_is_shown_as_each_target_writes_it(tmp_path: Path) -> None:
    source = make(tmp_path / "hf", "llama", hidden_size=24)
    convert(source, tmp_path / "ms", progress=False)
    name = "blocks.1.attn.v.weight"
    rows = {row[0]: row[1:] for row in tensor_under_each_name(source, tmp_path / "ms", name).rows}
    assert list(rows) == ["Hugging Face", *(target for target in TARGETS if target != "mindformers-gpt2")]
    assert rows["mindformers-llama"][0] == "model.layers.1.attention.wv.weight"
    for target in rows.keys() - {"Hugging Face", "mindspore"}:
        convert(source, tmp_path / target, to=target, progress=False)
        foreign, _, shape, _, first = rows[target]
        written = load_file(tmp_path / target / "model.safetensors")[foreign]
        assert written.shape == shape and [f"{x:.4g}" for x in written.reshape(-1)[:3]] == first


def test_tensors_that_a_target_could_not_join_are_not_joined(tmp_path: Path) -> None:
    source = make(tmp_path / "hf", "llama")
    tensors = load_file(source / "model.safetensors")
    name = "model.layers.1.self_attn.q_proj.weight"
    save_file({**tensors, name: tensors[name].astype("float16")}, source / "model.safetensors")
    convert(source, tmp_path / "ms", progress=False)
    rows = {row[0]: row[1:] for row in tensor_under_each_name(source, tmp_path / "ms", "blocks.1.attn.k.weight").rows}
    assert rows["mindformers-mcore"][3:] == ("float16, float32, float32", "several precisions, not joined")
    assert rows["mindspore"][3] == "float32"


def test_the_policies_say_what_they_would_cost(tmp_path: Path) -> None:
    source = make(tmp_path)
    tensors = {name: x.astype("float16") for name, x in load_file(source / "model.safetensors").items()}
    save_file(tensors, source / "model.safetensors")
    rows = {row[0]: row[1:] for row in dtype_policy(source).rows}
    size = sum(x.nbytes for x in tensors.values()) / 1e6
    assert rows["keep"][:2] == (f"{size:,.1f}", "exact: stays F16")
    assert rows["float32"][:2] == (f"{2 * size:,.1f}", "exact") and rows["float16"][1] == "exact"
    assert "rounded" in rows["bfloat16"][1]
