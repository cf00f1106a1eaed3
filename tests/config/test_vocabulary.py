"""The three-way vocabulary check: config, tokenizer, embedding."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from mindport.config import from_dict, inspect_config, read_config, schema, to_dict
from mindport.config.constraints import tensor_parallel
from mindport.errors import ConfigError, FileError

from .test_read import LLAMA


@pytest.fixture
def model(tmp_path):
    """A directory whose three sizes agree: 97."""

    def make(rows: int = 97, tokens: int = 97, pad: str | None = "t0", **changes: object):
        (tmp_path / "config.json").write_text(json.dumps({**LLAMA, **changes}))
        vocab = {f"t{i}": i for i in range(tokens - 1)}
        added = [{"id": tokens - 1, "content": "<|end|>"}]
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": added}))
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": pad}))
        save_file({"model.embed_tokens.weight": np.zeros((rows, 40), "f4")}, tmp_path / "model.safetensors")
        return tmp_path

    return make


def test_agreement(model):
    found = read_config(model()).vocabulary
    assert (found.tokenizer, found.embedding, found.pad) == (97, 97, 0)


def test_a_smaller_tokenizer_is_padding_and_a_larger_one_a_fault(model):
    assert read_config(model(tokens=90)).ok
    with pytest.raises(ConfigError, match="another model"):
        read_config(model(tokens=98))


def test_embedding_rows_decide(model):
    with pytest.raises(ConfigError, match=r"98 rows(.|\n)*--padded-vocab 98"):
        read_config(model(rows=98))


def test_declared_padding_is_rows_and_no_tokens(model):
    report = read_config(model(rows=128), padded_vocab=128)
    assert (report.model.vocab_size, report.model.padded_vocab, report.model.vocab_rows) == (97, 128, 128)
    assert schema.shapes(report.model)["embed.weight"] == (128, 40)
    assert ("padded_vocab", "128", "explicit", "--padded-vocab") in report.field_table().rows
    assert from_dict(to_dict(report.model)) == report.model
    undeclared = dataclasses.replace(report.model, padded_vocab=None)
    assert (tensor_parallel(report.model, 2).ok, tensor_parallel(undeclared, 2).ok) == (True, False)


@pytest.mark.parametrize(
    ("rows", "declared", "says"),
    [
        (128, 160, r"128 rows, expected padded_vocab 160; .*--padded-vocab 128"),
        (128, 97, r"128 rows, expected padded_vocab 97; .*--padded-vocab 128"),
        (97, 128, r"97 rows, expected padded_vocab 128; it is not padded: leave out --padded-vocab"),
        (90, 90, r"padding comes after the vocabulary: padded_vocab 90, expected at least vocab_size 97"),
        (90, 128, r"90 rows, expected padded_vocab 128; set vocab_size"),
        (97, 0, r"padded_vocab 0, expected at least vocab_size 97"),
    ],
)
def test_a_declaration_that_the_files_do_not_bear_out_stops(model, rows, declared, says):
    with pytest.raises(ConfigError, match=says):
        read_config(model(rows=rows), padded_vocab=declared)


def test_tokens_are_held_to_the_true_vocabulary(model):
    with pytest.raises(ConfigError, match="tokenizer 98, expected at most vocab_size 97"):
        read_config(model(rows=128, tokens=98), padded_vocab=128)
    report = read_config(model(rows=128, bos_token_id=96, eos_token_id=97), padded_vocab=128)
    states = {row.name: row.state for row in report.constraints}
    assert (states["bos_token_id is a token"], states["eos_token_id is a token"]) == ("pass", "warning")


@pytest.mark.parametrize("wrapper", ["", "module.", "_orig_mod.", "module._orig_mod.module.", "transformer."])
@pytest.mark.parametrize("sharded", [False, True])
def test_the_embedding_is_found_behind_wrappers(model, wrapper, sharded):
    directory, name = model(), f"{wrapper}model.embed_tokens.weight"
    file = "model-00001-of-00001.safetensors" if sharded else "model.safetensors"
    (directory / "model.safetensors").unlink()
    save_file({name: np.zeros((98, 40), "f4"), "module.other": np.zeros(3, "f4")}, directory / file)
    if sharded:
        (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: file}}))
    assert inspect_config(directory).vocabulary.embedding == 98


@pytest.mark.parametrize("name", ["other.model.embed_tokens.weight", "model.embed_tokens.bias", "embed_tokens.weight"])
def test_another_tensor_is_not_taken_for_the_embedding(model, name):
    directory = model()
    save_file({name: np.zeros((98, 40), "f4")}, directory / "model.safetensors")
    assert inspect_config(directory).vocabulary.embedding is None


def test_padding_token_disagreement_is_a_warning(model):
    rows = {row.name: row.state for row in read_config(model(pad_token_id=5)).constraints}
    assert rows["tokenizer and config pad alike"] == "warning"


def test_sharded_embedding_is_found_through_the_index(model):
    directory = model(rows=98)
    (directory / "model.safetensors").rename(directory / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"model.embed_tokens.weight": "model-00001-of-00001.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ConfigError, match="98 rows"):
        read_config(directory)


def test_damaged_weights_are_said(model):
    directory = model()
    (directory / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    with pytest.raises(FileError, match="damaged"):
        read_config(directory)


def test_damaged_tokenizer_is_said(model):
    directory = model()
    (directory / "tokenizer.json").write_text("[1, 2]")
    with pytest.raises(FileError, match="no vocabulary"):
        read_config(directory)


@pytest.mark.parametrize("index", [[], {"weight_map": []}, {"weight_map": {"model.embed_tokens.weight": "../x"}}, {}])
def test_a_damaged_index_is_left_to_the_converter(model, index):
    directory = model()
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_config(directory).vocabulary.embedding is None


@pytest.mark.parametrize("number", ["3", None, 1.5, True, -1, [1]])
@pytest.mark.parametrize("added", [False, True])
def test_an_id_that_is_no_id_is_said(model, number, added):
    directory = model()
    vocab, tokens = ({}, [{"id": number, "content": "x"}]) if added else ({"x": number}, [])
    (directory / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": tokens}))
    with pytest.raises(FileError, match=r"no vocabulary(.|\n)*whole number(.|\n)*do:"):
        read_config(directory)


@pytest.mark.parametrize("pad", [["<pad>"], 3, False, {"content": ["<pad>"]}])
def test_a_padding_token_that_is_no_text_is_said(model, pad):
    with pytest.raises(FileError, match="names no token for padding"):
        read_config(model(pad=pad))


def test_an_embedding_without_rows_is_said(model):
    directory = model()
    save_file({"model.embed_tokens.weight": np.float32(1).reshape(())}, directory / "model.safetensors")
    with pytest.raises(FileError, match=r"one number, not a matrix(.|\n)*embed_tokens"):
        read_config(directory)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "\ud800", "", ".", "..", "a/b"])
def test_a_file_name_that_is_none_is_left_to_the_converter(model, name):
    directory = model()
    index = {"weight_map": {"model.embed_tokens.weight": name}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_config(directory).vocabulary.embedding is None
