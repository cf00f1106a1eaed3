"""The three-way vocabulary check: config, tokenizer, embedding."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from mindport.config import read_config
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
    with pytest.raises(ConfigError, match="98 rows"):
        read_config(model(rows=98))


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
