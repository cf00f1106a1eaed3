"""Conversion: round trips by value and by byte, precisions, refusals, and what an interruption leaves."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from mindport.config import schema
from mindport.errors import FileError, MappingError, UsageError
from mindport.files import MARK
from mindport.weights import convert, load, verify_round_trip, writers
from mindport.weights.jobs import export_job
from mindport.weights.manifest import read_manifest, write_manifest
from tests.weights.models import FAMILIES, GPT2, LLAMA, make, save, tensors_of

QUIET = {"progress": False}


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    """A config.json with random sizes and switches."""
    heads, tied = draw(st.integers(1, 4)), draw(st.booleans())
    if draw(st.booleans()):
        sizes = {"n_embd": heads * draw(st.integers(1, 3)), "n_head": heads, "n_inner": draw(st.integers(1, 9))}
        return {**GPT2, **sizes, "n_layer": draw(st.integers(1, 3)), "tie_word_embeddings": tied}
    groups = draw(st.sampled_from([d for d in range(1, heads + 1) if heads % d == 0]))
    sizes = {"num_attention_heads": heads, "num_key_value_heads": groups, "head_dim": 2 * draw(st.integers(1, 3)),
             "hidden_size": draw(st.integers(1, 9)), "num_hidden_layers": draw(st.integers(1, 3))}  # fmt: skip
    switches = {"attention_bias": draw(st.booleans()), "mlp_bias": draw(st.booleans()), "tie_word_embeddings": tied}
    return {**LLAMA, **sizes, **switches}


@settings(max_examples=40, deadline=None)
@given(raw=models(), dtype=st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16]), shards=st.integers(1, 3))
def test_hf_to_mindspore_to_hf_is_equal_byte_for_byte(raw: dict[str, Any], dtype: Any, shards: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        source = save(home / "hf", raw, tensors_of(raw, home / "hf", dtype), shards)
        report = convert(source, home / "ms", **QUIET)
        trip = verify_round_trip(source, home / "ms", progress=False)
        assert report.ok and report.accounting.closes
        assert trip.ok and trip.equal == trip.tensors and trip.identical == trip.files
        assert len(trip.files) == (shards if shards == 1 else shards + 1)


def test_a_gpt2_goes_over_by_value(tmp_path: Path) -> None:
    tensors = tensors_of(GPT2, tmp_path / "hf")
    convert(save(tmp_path / "hf", GPT2, tensors), tmp_path / "ms", **QUIET)
    w, fused = load(tmp_path / "ms"), tensors["transformer.h.1.attn.c_attn.weight"]
    for i, name in enumerate("qkv"):
        assert np.array_equal(w[f"blocks.1.attn.{name}.weight"], fused[:, 24 * i : 24 * (i + 1)].T)
    square = tensors["transformer.h.2.attn.c_proj.weight"]  # [24, 24]: only its values tell it from its transpose
    assert np.array_equal(w["blocks.2.attn.o.weight"], square.T)
    assert not np.array_equal(w["blocks.2.attn.o.weight"], square)
    assert np.array_equal(w["blocks.0.mlp.down.weight"], tensors["transformer.h.0.mlp.c_proj.weight"].T)
    assert np.array_equal(w["position.weight"], tensors["transformer.wpe.weight"])
    assert list(w) == list(schema.shapes(w.config)) and "head.weight" not in w


def test_a_llama_goes_over_by_value(tmp_path: Path) -> None:
    tensors = tensors_of(LLAMA, tmp_path / "hf", ml_dtypes.bfloat16)
    convert(save(tmp_path / "hf", LLAMA, tensors), tmp_path / "ms", **QUIET)
    w = load(tmp_path / "ms")
    pairs = {
        "blocks.2.attn.k.weight": "model.layers.2.self_attn.k_proj.weight",
        "blocks.0.mlp.gate.weight": "model.layers.0.mlp.gate_proj.weight",
        "blocks.1.norm2.weight": "model.layers.1.post_attention_layernorm.weight",
        "head.weight": "lm_head.weight",
    }
    for hub, foreign in pairs.items():
        assert w[hub].dtype == ml_dtypes.bfloat16 and w[hub].tobytes() == tensors[foreign].tobytes()


def test_the_library_reads_the_result(tmp_path: Path) -> None:
    convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    found, w = load_file(tmp_path / "ms/model.safetensors"), load(tmp_path / "ms")
    assert found.keys() == w.keys() and all(np.array_equal(found[name], w[name]) for name in w)


def test_shards_are_filled_to_their_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "SHARD_BYTES", 9000)
    source = make(tmp_path / "hf", "gpt2")
    report = convert(source, tmp_path / "ms", **QUIET)
    sizes = [file.bytes for file in report.files]
    assert len(sizes) > 3 and max(sizes) < 9000 + 3000  # the header comes on top
    index = json.loads((tmp_path / "ms/model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == load(tmp_path / "ms").keys()
    assert verify_round_trip(source, tmp_path / "ms", progress=False).identical == ("model.safetensors",)


# --- tied heads, buffers, prefixes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_tied_duplicate_is_dropped_and_restored(family: str, tmp_path: Path) -> None:
    raw = {**(GPT2 if family == "gpt2" else LLAMA), "tie_word_embeddings": True}
    tensors = tensors_of(raw, tmp_path / "hf")
    embedding = next(x for name, x in tensors.items() if "wte" in name or "embed_tokens" in name)
    source = save(tmp_path / "hf", raw, tensors | {"lm_head.weight": embedding.copy()})
    report = convert(source, tmp_path / "ms", **QUIET)
    assert report.accounting.tied == 1 and report.ok and "head.weight" not in load(tmp_path / "ms")
    assert any("lm_head.weight" in note for note in report.notes)
    trip = verify_round_trip(source, tmp_path / "ms", progress=False)
    assert trip.ok and trip.identical == ("model.safetensors",)


def test_a_tied_head_that_differs_in_one_bit_is_refused(tmp_path: Path) -> None:
    raw = {**LLAMA, "tie_word_embeddings": True}
    tensors = tensors_of(raw, tmp_path / "hf")
    head = tensors["model.embed_tokens.weight"].copy()
    head.view(np.uint32)[-1, -1] ^= 1
    with pytest.raises(MappingError, match=r"ties the head(.|\n)*lm_head.weight"):
        convert(save(tmp_path / "hf", raw, tensors | {"lm_head.weight": head}), tmp_path / "ms", **QUIET)


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_buffers_are_left_behind_and_reported(prefix: str, tmp_path: Path) -> None:
    tensors = tensors_of(GPT2, tmp_path / "hf", prefix=prefix)
    buffers = {f"{prefix}h.{i}.attn.bias": np.ones((1, 1, 19, 19), np.uint8) for i in range(3)}
    source = save(tmp_path / "hf", GPT2, tensors | buffers)
    report = convert(source, tmp_path / "ms", **QUIET)
    trip = verify_round_trip(source, tmp_path / "ms", progress=False)
    assert report.ok and report.accounting.dropped == 3 and report.prefix == prefix
    assert trip.ok and trip.dropped == tuple(sorted(buffers)) and trip.equal == len(tensors)
    assert "the one difference" in trip.headline() and trip.identical == ()


# --- precisions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.module.", "transformer.", "model."])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_wrapper_comes_back_byte_for_byte(family: str, wrapper: str, tmp_path: Path) -> None:
    raw = {**FAMILIES[family], "tie_word_embeddings": False}
    tensors = {wrapper + name: x for name, x in tensors_of(raw, tmp_path / "hf").items()}
    save(tmp_path / "hf", raw, tensors)
    report = convert(tmp_path / "hf", tmp_path / "ms", progress=False)
    assert any(repr(wrapper) in note for note in report.notes)
    assert not any(name.startswith(wrapper) for name in load(tmp_path / "ms"))
    convert(tmp_path / "ms", tmp_path / "back", to="huggingface", progress=False)
    assert (tmp_path / "back/model.safetensors").read_bytes() == (tmp_path / "hf/model.safetensors").read_bytes()


def test_another_precision_is_reported_with_its_error(tmp_path: Path) -> None:
    source = make(tmp_path / "hf")
    report = convert(source, tmp_path / "ms", dtype="bfloat16", **QUIET)
    errors = {loss.tensor: loss.max_abs_error for loss in report.losses}
    original = load_file(source / "model.safetensors")["lm_head.weight"]
    expected = np.abs(original - original.astype(ml_dtypes.bfloat16).astype(np.float32)).max()
    assert load(tmp_path / "ms")["head.weight"].dtype == ml_dtypes.bfloat16
    assert errors["head.weight"] == pytest.approx(float(expected)) and len(errors) == 30
    trip = verify_round_trip(source, tmp_path / "ms", progress=False)
    assert not trip.ok and "brought to bfloat16" in trip.headline()


def test_widening_loses_nothing(tmp_path: Path) -> None:
    tensors = tensors_of(LLAMA, tmp_path / "hf", np.float16)
    report = convert(save(tmp_path / "hf", LLAMA, tensors), tmp_path / "ms", dtype="float32", **QUIET)
    assert report.losses == () and np.array_equal(load(tmp_path / "ms")["head.weight"], tensors["lm_head.weight"])
    back = convert(tmp_path / "ms", tmp_path / "back", to="huggingface", **QUIET)
    assert any("bytes differ" in note for note in back.notes)


def test_a_value_too_large_for_float16_stops_the_conversion(tmp_path: Path) -> None:
    tensors = tensors_of(LLAMA, tmp_path / "hf")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = 1e6
    source = save(tmp_path / "hf", LLAMA, tensors)
    with pytest.raises(UsageError, match=r"infinite(.|\n)*blocks.1.mlp.up.weight"):
        convert(source, tmp_path / "ms", dtype="float16", **QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


@pytest.mark.parametrize(("dtype", "advice"), [(np.float64, "float32 first"), (np.int8, "quantised")])
def test_other_precisions_are_refused(dtype: Any, advice: str, tmp_path: Path) -> None:
    tensors = tensors_of(LLAMA, tmp_path / "hf")
    tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(dtype)
    with pytest.raises(MappingError, match=rf"model.norm.weight(.|\n)*{advice}"):
        convert(save(tmp_path / "hf", LLAMA, tensors), tmp_path / "ms", **QUIET)


def test_mixed_precisions_are_kept_each(tmp_path: Path) -> None:
    tensors = tensors_of(LLAMA, tmp_path / "hf", ml_dtypes.bfloat16)
    tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.float32)
    source = save(tmp_path / "hf", {**LLAMA, "dtype": "bfloat16"}, tensors)
    report = convert(source, tmp_path / "ms", **QUIET)
    w = load(tmp_path / "ms")
    assert (w["norm.weight"].dtype, w["embed.weight"].dtype) == (np.float32, ml_dtypes.bfloat16)
    assert any("config.json says bfloat16" in note for note in report.notes)
    assert verify_round_trip(source, tmp_path / "ms", progress=False).ok


# --- the target ------------------------------------------------------------------------------------------------------


def test_small_files_go_along_and_code_does_not(tmp_path: Path) -> None:
    source = make(tmp_path / "hf")
    for name in ("special_tokens_map.json", "merges.txt", "chat_template.jinja", "modeling_x.py", ".hidden.json"):
        (source / name).write_text("{}")
    convert(source, tmp_path / "ms", **QUIET)
    names = {path.name for path in (tmp_path / "ms").iterdir()}
    small = {"config.json", "special_tokens_map.json", "merges.txt", "chat_template.jinja"}
    assert names == small | {"model.safetensors", "mindport.json"}
    convert(tmp_path / "ms", tmp_path / "back", to="huggingface", **QUIET)
    assert {path.name for path in (tmp_path / "back").iterdir()} == small | {
        "model.safetensors",
        "mindport-export.json",
    }


def test_what_does_not_go_along_is_said(tmp_path: Path) -> None:
    source = make(tmp_path / "hf")
    (source / "notes.tiktoken").write_text("x")
    (source / "folder").mkdir()
    assert "folder, notes.tiktoken" in "".join(convert(source, tmp_path / "ms", **QUIET).notes)


def test_overwrite_spares_a_hugging_face_directory_that_we_did_not_write(tmp_path: Path) -> None:
    source, target = make(tmp_path / "hf"), make(tmp_path / "precious")
    convert(source, tmp_path / "ms", **QUIET)
    with pytest.raises(UsageError, match=r"without mindport-export\.json"):
        convert(tmp_path / "ms", target, to="huggingface", overwrite=True, **QUIET)
    assert (target / "config.json").exists()
    for _ in range(2):  # our own may be replaced
        convert(tmp_path / "ms", tmp_path / "back", to="huggingface", overwrite=True, **QUIET)


def test_another_precision_is_named_in_config_json(tmp_path: Path) -> None:
    """transformers loads by that key, and would undo the cast."""
    source = make(tmp_path / "hf")
    convert(source, tmp_path / "ms", dtype="bfloat16", **QUIET)
    convert(tmp_path / "ms", tmp_path / "back", to="huggingface", **QUIET)
    assert json.loads((tmp_path / "back" / "config.json").read_text())["dtype"] == "bfloat16"


def test_asking_for_a_name_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    weights = load(tmp_path / "ms")
    monkeypatch.setattr(type(weights), "__getitem__", lambda self, name: pytest.fail("read"))
    assert "embed.weight" in weights and "nothing" not in weights


ARGUMENTS = {
    "to": ({"to": "torch"}, "no such to"),
    "dtype": ({"dtype": "int8"}, "no such dtype"),
    "format": ({"file_format": "npz"}, "no such file_format"),
    "ckpt for Hugging Face": ({"to": "huggingface", "file_format": "ckpt"}, "hold safetensors"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_that_make_no_sense(case: str, tmp_path: Path) -> None:
    options, fragment = ARGUMENTS[case]
    with pytest.raises(UsageError, match=fragment):
        convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET, **options)


def test_the_source_is_never_overwritten(tmp_path: Path) -> None:
    source = make(tmp_path / "a/hf")
    for target in (source, source / "ms", tmp_path / "a"):
        with pytest.raises(UsageError, match="must lie apart"):
            convert(source, target, overwrite=True, **QUIET)
    assert sorted(path.name for path in source.iterdir()) == ["config.json", "model.safetensors"]


def test_overwrite_replaces_earlier_results_only(tmp_path: Path) -> None:
    source, target, mine = make(tmp_path / "hf"), tmp_path / "ms", tmp_path / "mine"
    convert(source, target, **QUIET)
    with pytest.raises(FileError, match="is there already"):
        convert(source, target, **QUIET)
    assert convert(source, target, overwrite=True, **QUIET).ok
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="earlier result only"):
        convert(source, mine, overwrite=True, **QUIET)
    assert (mine / "thesis.txt").exists()


MARKS = {"mindspore": "mindport.json", "huggingface": "mindport-export.json"}


@pytest.mark.parametrize("content", ["{}", "[]", "", "3", '"mindpor"', '{"format": 1}'])
@pytest.mark.parametrize("to", MARKS)
def test_a_foreign_file_of_the_marks_name_protects_nothing_from_being_spared(
    to: str, content: str, tmp_path: Path
) -> None:
    source, mine = make(tmp_path / "hf"), tmp_path / "mine"
    convert(source, tmp_path / "ms", **QUIET)
    mine.mkdir()
    (mine / MARKS[to]).write_text(content)
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="earlier result only"):
        convert(source if to == "mindspore" else tmp_path / "ms", mine, to=to, overwrite=True, **QUIET)
    assert (mine / "thesis.txt").exists()


def test_the_source_of_the_weights_is_never_overwritten(tmp_path: Path) -> None:
    """Not even where it is an earlier export of ours."""
    convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    convert(tmp_path / "ms", tmp_path / "export", to="huggingface", **QUIET)
    convert(tmp_path / "export", tmp_path / "again", **QUIET)
    with pytest.raises(UsageError, match="must lie apart"):
        convert(tmp_path / "again", tmp_path / "export", to="huggingface", overwrite=True, **QUIET)
    assert (tmp_path / "export/model.safetensors").exists()


def test_what_appears_during_a_conversion_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = writers.Writer.write

    def meanwhile(self: Any, name: str, x: np.ndarray) -> None:
        (tmp_path / "ms").mkdir(exist_ok=True)
        (tmp_path / "ms/thesis.txt").touch()
        write(self, name, x)

    monkeypatch.setattr(writers.Writer, "write", meanwhile)
    with pytest.raises(FileError, match="appeared meanwhile"):
        convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    assert (tmp_path / "ms/thesis.txt").exists() and not list(tmp_path.glob(".ms*"))


def test_a_config_of_another_name_is_no_source(tmp_path: Path) -> None:
    source = make(tmp_path / "hf")
    (source / "other.json").write_text((source / "config.json").read_text())
    with pytest.raises(UsageError, match=r"another name(.|\n)*do:"):
        convert(source / "other.json", tmp_path / "ms", **QUIET)
    with pytest.raises(UsageError, match="must lie apart"):
        convert(source / "config.json", source / "ms", **QUIET)
    assert convert(source / "config.json", tmp_path / "ms", **QUIET).ok


def test_the_working_directory_is_no_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "hf")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(FileError, match=r"working directory(.|\n)*do:"):
        convert(source, ".", **QUIET)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "hf"]


def test_a_link_to_an_empty_directory_is_a_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert convert(make(tmp_path / "hf"), tmp_path / "link", **QUIET).ok
    assert len(load(tmp_path / "real")) == 30


def test_what_interrupted_runs_left_is_named(tmp_path: Path) -> None:
    for name in (".m[s].1.part", ".m[s].2.old", ".other.3.part"):
        (tmp_path / name).mkdir()
    notes = convert(make(tmp_path / "hf"), tmp_path / "m[s]", **QUIET).notes
    (note,) = (note for note in notes if "interrupted" in note)
    assert ".m[s].1.part, .m[s].2.old" in note and "other" not in note
    assert len(list(tmp_path.glob(".*"))) == 3  # no mark of ours in them: nothing was removed


def test_numbers_written_as_text_are_named_at_every_level(tmp_path: Path) -> None:
    rope = {"type": "linear", "factor": "2.5"}
    notes = convert(make(tmp_path / "hf", rope_scaling=rope, vocab_size="41"), tmp_path / "ms", **QUIET).notes
    assert "config.json: vocab_size '41': a number written as text" in notes
    assert f"config.json: rope_scaling {rope}: factor: a number written as text" in notes


def test_a_full_disk_is_said_before_the_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(FileError, match=r"the disk cannot hold(.|\n)*0.00 MB free(.|\n)*0.0[1-9] MB"):
        convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)


def _python(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE, text=True)


def test_a_disk_that_fills_up_leaves_nothing(tmp_path: Path) -> None:
    code = """
import resource, sys
from mindport.errors import FileError
from mindport.weights import convert
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    convert(sys.argv[1], sys.argv[2], progress=False)
except FileError as error:
    sys.exit(f"FileError {error}")
"""
    process = _python(code, make(tmp_path / "hf"), tmp_path / "ms")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1 and "FileError writing failed, nothing was kept" in said, said
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


SLOW = """
import pathlib, sys, time
from mindport.weights import convert
from mindport.weights.readers import SafetensorsReader
read, count = SafetensorsReader.read, []
def slow(self, name):
    count.append(name)
    if len(count) == 5:
        pathlib.Path(sys.argv[3]).touch()
        time.sleep(600)
    return read(self, name)
SafetensorsReader.read = slow
convert(sys.argv[1], sys.argv[2], progress=False)
"""


@pytest.fixture
def half_way(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, Path]]:
    """A conversion of tmp_path/hf to tmp_path/ms that stands still: its process, the source, what is written so far."""
    source, mark = make(tmp_path / "hf"), tmp_path / "half-way"
    process = _python(SLOW, source, tmp_path / "ms", mark)
    while not mark.exists() and process.poll() is None:
        time.sleep(0.02)
    (part,) = tmp_path.glob(".ms.*.part")
    yield process, source, part
    process.kill()
    process.communicate()


def _kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_what_a_killed_conversion_leaves_does_not_load_and_is_swept_by_the_next(half_way: Any, tmp_path: Path) -> None:
    process, source, part = half_way
    _kill(process)
    assert not (tmp_path / "ms").exists() and (part / "whole/model.safetensors").exists()
    for place in (part, part / "whole"):
        with pytest.raises(FileError, match="interrupted conversion"):
            load(place)
    report = convert(source, tmp_path / "ms", **QUIET)
    assert report.ok and len(load(tmp_path / "ms")) == 30
    (note,) = (note for note in report.notes if part.name in note)
    assert note.startswith("swept away") and not list(tmp_path.glob(".*"))
    assert not [path.name for path in (tmp_path / "ms").iterdir() if path.name.startswith(".")]


def test_a_conversion_that_is_at_work_is_not_swept(half_way: Any, tmp_path: Path) -> None:
    process, source, part = half_way
    report = convert(source, tmp_path / "ms", **QUIET)
    (note,) = (note for note in report.notes if part.name in note)
    assert "still at work" in note and (part / "whole/model.safetensors").exists() and process.poll() is None


def test_only_the_left_overs_of_the_same_target_are_swept(half_way: Any, tmp_path: Path) -> None:
    process, source, part = half_way
    _kill(process)
    notes = convert(source, tmp_path / "other", **QUIET).notes
    assert part.exists() and not any(part.name in note for note in notes)


def test_the_way_back_sweeps_too(tmp_path: Path) -> None:
    convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    left = tmp_path / ".back.1.part"
    left.mkdir()
    (left / MARK).write_text(f"{socket.gethostname()} 1\n")
    notes = convert(tmp_path / "ms", tmp_path / "back", to="huggingface", **QUIET).notes
    assert not left.exists() and any(note.startswith("swept away") for note in notes)


def test_room_is_made_before_the_disk_is_asked(half_way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, source, part = half_way
    _kill(process)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=0 if part.exists() else usage.free))
    assert convert(source, tmp_path / "ms", **QUIET).ok


def test_a_file_that_reads_back_differently_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = writers.Writer.write

    def faulty(self: Any, name: str, x: np.ndarray) -> None:
        write(self, name, x + 1 if name == "norm.weight" else x)

    monkeypatch.setattr(writers.Writer, "write", faulty)
    with pytest.raises(FileError, match=r"does not read back(.|\n)*norm.weight"):
        convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


@pytest.mark.parametrize("to", ["huggingface", "mindformers-gpt2"])
@pytest.mark.parametrize("dtype", ["keep", "float16"])
def test_a_file_changed_since_the_conversion_leaves_nothing(to: str, dtype: str, tmp_path: Path) -> None:
    """In float16 the changed value is infinite, too; the cause is what is said."""
    convert(make(tmp_path / "hf", "gpt2"), tmp_path / "ms", **QUIET)
    path = tmp_path / "ms" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-4:] = np.float32(1e30).tobytes()
    path.write_bytes(data)
    with pytest.raises(FileError, match="changed after the conversion"):
        convert(tmp_path / "ms", tmp_path / "out", to=to, dtype=dtype, **QUIET)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf", "ms"]


def test_a_disk_that_fails_as_it_is_flushed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr("mindport.weights.read_back.flush", fails)
    with pytest.raises(FileError, match=r"nothing was kept(.|\n)*Input/output"):
        convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


@pytest.mark.parametrize("dtype", ["keep", "bfloat16"])
def test_a_directory_without_its_config_is_not_taken_back(dtype: str, tmp_path: Path) -> None:
    convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    (tmp_path / "ms" / "config.json").unlink()
    with pytest.raises(FileError, match=r"without its config.json(.|\n)*/ms\n"):
        convert(tmp_path / "ms", tmp_path / "out", to="huggingface", dtype=dtype, **QUIET)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf", "ms"]


@pytest.mark.parametrize("away", ["x" * 5000, "a\0b", "gone"])
def test_a_source_that_cannot_be_reached_does_not_stop_the_way_back(away: str, tmp_path: Path) -> None:
    """It was in another user's home, on another system, or is gone."""
    convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    made = read_manifest(tmp_path / "ms")
    assert made.source is not None
    write_manifest(tmp_path / "ms", replace(made, source=replace(made.source, path=away)))
    assert convert(tmp_path / "ms", tmp_path / "out", to="huggingface", **QUIET).ok


def test_fused_tensors_of_two_precisions_are_not_joined_silently(tmp_path: Path) -> None:
    convert(make(tmp_path / "hf", "gpt2"), tmp_path / "ms", **QUIET)
    w = load(tmp_path / "ms")
    w.specs["blocks.0.attn.q.weight"] = ("F16", (24, 24))
    with pytest.raises(MappingError, match="several precisions"):
        export_job(w, "keep")


@pytest.mark.parametrize("place", ["a file/ms", "/proc/ms"])
def test_a_target_that_cannot_be_written_is_a_file_error(place: str, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(FileError, match=r"nothing was kept|cannot hold"):
        convert(make(tmp_path / "hf"), tmp_path / place, **QUIET)


def test_a_long_job_says_beforehand_what_it_will_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from mindport.weights import converter

    convert(make(tmp_path / "hf"), tmp_path / "short")
    assert "converting" not in capfd.readouterr().err
    monkeypatch.setattr(converter, "RATE", 1000.0)
    convert(tmp_path / "hf", tmp_path / "long")
    said = capfd.readouterr().err.splitlines()[0]
    assert "tensors: about" in said and "of disk" in said and "the largest of" in said
