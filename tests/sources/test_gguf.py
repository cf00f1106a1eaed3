"""GGUF → Hugging Face directory: every weight, setting and token, and a refusal for what no table names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from mindport.errors import ConfigError, FileError, MappingError
from mindport.sources.gguf import convert, unpermute
from tests.sources.conftest import (
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    LAYERS,
    TOKENS,
    TinyGGUF,
    permute,
    random_weights,
    write_gguf,
)


def test_weights_come_back_bit_for_bit(tiny_gguf: TinyGGUF, tmp_path: Path) -> None:
    directory = tmp_path / "hf"
    directory.mkdir()
    assert convert(tiny_gguf.path, directory, "float32") == {"F32": 2 + 9 * LAYERS}
    written = load_file(directory / "model.safetensors")
    assert written.keys() == tiny_gguf.weights.keys()
    for name, weight in tiny_gguf.weights.items():
        np.testing.assert_array_equal(written[name], weight, err_msg=name)


def test_half_precision_and_dequantisation(tmp_path: Path) -> None:
    weights = random_weights()
    write_gguf(tmp_path / "q8.gguf", weights, quantised=True)
    types = convert(tmp_path / "q8.gguf", tmp_path)
    assert types == {"Q8_0": 1 + 7 * LAYERS, "F32": 1 + 2 * LAYERS}
    written = load_file(tmp_path / "model.safetensors")
    assert {w.dtype for w in written.values()} == {np.dtype("float16")}
    for name, weight in weights.items():  # Q8_0 has steps of (largest of 32) / 127
        np.testing.assert_allclose(written[name], weight, atol=np.abs(weight).max() / 127, err_msg=name)


def test_config(tiny_gguf: TinyGGUF, tmp_path: Path) -> None:
    convert(tiny_gguf.path, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["num_key_value_heads"] == KV_HEADS
    assert config["head_dim"] == HEAD_DIM
    assert config["rms_norm_eps"] == 1e-5  # GGUF holds 9.999999747378752e-06
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": 100000.0}
    assert config["tie_word_embeddings"] is True
    assert (config["bos_token_id"], config["eos_token_id"], config["pad_token_id"]) == (1, 2, 2)
    assert config["dtype"] == "float16"


def test_untied_output(tmp_path: Path) -> None:
    weights = random_weights()
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"] + 1
    write_gguf(tmp_path / "untied.gguf", weights)
    convert(tmp_path / "untied.gguf", tmp_path, "float32")
    assert json.loads((tmp_path / "config.json").read_text())["tie_word_embeddings"] is False
    np.testing.assert_array_equal(
        load_file(tmp_path / "model.safetensors")["lm_head.weight"], weights["lm_head.weight"]
    )


def test_tokenizer_round_trip_and_digits(tiny_gguf: TinyGGUF, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    convert(tiny_gguf.path, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "the the 2026 é\n"
    encoded = tokenizer.encode(text + "<|im_end|>")
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == text + "<|im_end|>"
    assert "Ġthe" in encoded.tokens
    assert encoded.ids[-1] == TOKENS.index("<|im_end|>")
    assert [t for t in encoded.tokens if t.isdigit()] == list("2026")
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["eos_token"] == "<|im_end|>"
    assert "im_start" in config["chat_template"]


@given(heads=st.integers(1, 5), half=st.integers(1, 6), columns=st.integers(1, 4))
def test_unpermute_inverts_llama_cpp(heads: int, half: int, columns: int) -> None:
    weight = np.arange(heads * 2 * half * columns, dtype=np.float32).reshape(-1, columns)
    np.testing.assert_array_equal(unpermute(permute(weight, heads), heads), weight)


def test_permutation_matters() -> None:
    """Negative control: with the heads of q for k, or without the inverse, the rows are wrong."""
    weight = random_weights()["model.layers.0.self_attn.k_proj.weight"]
    assert not np.array_equal(unpermute(permute(weight, KV_HEADS), HEADS // 3 * 4), weight)
    assert not np.array_equal(permute(weight, KV_HEADS), weight)


def test_unknown_architecture_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", random_weights(), architecture="qwen2")
    with pytest.raises(ConfigError, match="not supported") as caught:
        convert(tmp_path / "x.gguf", tmp_path)
    assert caught.value.got == "qwen2"


def test_unknown_setting_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", random_weights(), edit=lambda w: w.add_sliding_window(64))
    with pytest.raises(ConfigError, match="no table knows") as caught:
        convert(tmp_path / "x.gguf", tmp_path)
    assert "attention.sliding_window" in str(caught.value)


def test_unknown_pre_tokenizer_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", random_weights(), pre="llama-bpe")
    with pytest.raises(ConfigError, match="pre-tokenizer"):
        convert(tmp_path / "x.gguf", tmp_path)


def test_missing_tensor_is_named(tmp_path: Path) -> None:
    weights = random_weights()
    del weights["model.layers.1.mlp.up_proj.weight"]
    write_gguf(tmp_path / "x.gguf", weights)
    with pytest.raises(MappingError) as caught:
        convert(tmp_path / "x.gguf", tmp_path)
    assert "blk.1.ffn_up.weight" in str(caught.value)


def test_unknown_tensor_is_named(tmp_path: Path) -> None:
    add = lambda w: w.add_tensor("rope_freqs.weight", np.ones(8, np.float32))  # noqa: E731
    write_gguf(tmp_path / "x.gguf", random_weights(), edit=add)
    with pytest.raises(MappingError) as caught:
        convert(tmp_path / "x.gguf", tmp_path)
    assert "rope_freqs.weight" in str(caught.value)


def test_wrong_shape_is_named(tmp_path: Path) -> None:
    weights = random_weights()
    name = "model.layers.2.self_attn.v_proj.weight"
    weights[name] = weights[name].T.copy()
    write_gguf(tmp_path / "x.gguf", weights)
    with pytest.raises(MappingError, match="wrong shape") as caught:
        convert(tmp_path / "x.gguf", tmp_path)
    assert caught.value.where == "blk.2.attn_v.weight"


def test_overflow_in_half_precision_is_named(tmp_path: Path) -> None:
    weights = random_weights()
    weights["model.norm.weight"][3] = 70000.0  # the largest fp16 is 65504
    write_gguf(tmp_path / "x.gguf", weights)
    with pytest.raises(FileError, match="not finite in float16") as caught:
        convert(tmp_path / "x.gguf", tmp_path)
    assert caught.value.where == "output_norm.weight"


@pytest.mark.parametrize("keep", [0, 3, 100, 5000, -1000])
def test_truncated_file(tiny_gguf: TinyGGUF, tmp_path: Path, keep: int) -> None:
    (tmp_path / "cut.gguf").write_bytes(tiny_gguf.path.read_bytes()[:keep])
    with pytest.raises(FileError, match="GGUF file cannot be read"):
        convert(tmp_path / "cut.gguf", tmp_path)


def test_converted_model_equals_the_original_in_transformers(tiny_gguf: TinyGGUF, tmp_path: Path) -> None:
    """The directory loads offline, and computes what the weights before GGUF compute."""
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    directory = tmp_path / "hf"
    directory.mkdir()
    convert(tiny_gguf.path, directory, "float32")
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    original = AutoModelForCausalLM.from_config(model.config)
    original.load_state_dict({k: torch.tensor(v) for k, v in tiny_gguf.weights.items()}, strict=False)
    original.tie_weights()
    ids = torch.tensor([AutoTokenizer.from_pretrained(directory)("the 42 and\n the").input_ids])
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, original(ids).logits, rtol=0, atol=0)
