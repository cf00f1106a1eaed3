"""A multimodal model is refused with the way out, which, taken word for word, is a text model that goes across."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mindport.config import DIALECTS, read_config
from mindport.errors import ConfigError
from mindport.weights import convert, verify_round_trip

TEXT = {
    "vocab_size": 41, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
}  # fmt: skip
SIGHT = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16,
         "patch_size": 8}  # fmt: skip
MODELS = {  # model_type → (its configuration, of which text model, of which vision model, other settings)
    "llava": ("LlavaConfig", "llama", "CLIPVisionConfig", {"image_token_index": 40}),
    "mistral3": ("Mistral3Config", "mistral", "PixtralVisionConfig", {"image_token_index": 40}),
    "internvl": ("InternVLConfig", "qwen2", "InternVLVisionConfig", {"image_token_id": 40}),
}


def _save(model_type: str, directory: Path, *, nested: bool, whole: bool, dtype: str = "bfloat16") -> None:
    """A tiny random model of the real class, its head tied (or not) according to each level."""
    import torch
    import transformers as hf

    name, text, vision, settings = MODELS[model_type]
    inner = getattr(hf, DIALECTS[text].config_class)(**TEXT, tie_word_embeddings=nested)
    config = getattr(hf, name)(text_config=inner, vision_config=getattr(hf, vision)(**SIGHT), **settings)
    config.tie_word_embeddings = whole
    torch.manual_seed(0)
    hf.AutoModelForImageTextToText.from_config(config).to(getattr(torch, dtype)).save_pretrained(directory)


def _steps(directory: Path) -> str:
    """The program that the refusal prints."""
    with pytest.raises(ConfigError) as caught:
        convert(directory, directory.with_name("ms"), progress=False)
    assert "multimodal" in caught.value.what and caught.value.do is not None
    return "\n".join(re.findall(r"^    (.*)", caught.value.do, re.MULTILINE))


def _apart(directory: Path) -> float:
    """The largest difference between the logits of the whole model and of its text model."""
    import torch
    import transformers as hf

    ids = torch.arange(18).reshape(2, 9)
    whole = hf.AutoModelForImageTextToText.from_pretrained(directory).eval()
    text = hf.AutoModelForCausalLM.from_pretrained(f"{directory}-text").eval()
    return float((whole(input_ids=ids).logits - text(ids).logits).abs().max())


@pytest.mark.parametrize(
    ("model_type", "nested", "whole"),
    [("llava", False, False), ("mistral3", False, True), ("internvl", True, True), ("internvl", True, False)],
)
def test_the_steps_that_the_refusal_prints_lead_across(
    model_type: str, nested: bool, whole: bool, tmp_path: Path
) -> None:
    _save(model_type, tmp_path / "hf", nested=nested, whole=whole)
    exec(_steps(tmp_path / "hf"), {})
    assert _apart(tmp_path / "hf") == 0
    report = convert(tmp_path / "hf-text", tmp_path / "ms", progress=False)
    assert report.ok and report.model_type == MODELS[model_type][1]
    assert verify_round_trip(tmp_path / "hf-text", tmp_path / "ms", progress=False).ok
    model = read_config(tmp_path / "hf-text").model
    assert model is not None and (model.tie_word_embeddings, model.dtype) == (whole, "bfloat16")


def test_the_step_about_the_head_is_needed(tmp_path: Path) -> None:
    """Tied inside, not tied outside: the whole model has a head of its own, which the inner value would lose."""
    _save("internvl", tmp_path / "hf", nested=True, whole=False)
    steps = [line for line in _steps(tmp_path / "hf").splitlines() if "config.tie_word_embeddings" not in line]
    exec("\n".join(steps), {})
    assert _apart(tmp_path / "hf") > 0.01


def _refusal(tmp_path: Path, **raw: Any) -> ConfigError:
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path)
    return caught.value


@pytest.mark.parametrize("family", DIALECTS)
def test_a_supported_text_model_is_named(family: str, tmp_path: Path) -> None:
    error = _refusal(tmp_path, model_type="some_vlm", text_config={"model_type": family, "hidden_size": 20})
    assert f"'some_vlm' around the text model '{family}' (text_config: hidden_size" in error.got
    assert f"of the supported family {family}: save it by itself" in error.do


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ({"model_type": "gemma3_text"}, "'gemma3_text' is not supported either; the nearest supported family is gemma"),
        ({"model_type": "zzz"}, "'zzz' is not supported either; no supported family is like it"),
        ({"hidden_size": 20}, "None is not supported either"),
        ({"model_type": ["llama"]}, "is not supported either"),
        ({}, "None is not supported either"),
    ],
)
def test_another_text_model_is_not_promised(text: dict[str, Any], says: str, tmp_path: Path) -> None:
    error = _refusal(tmp_path, model_type="some_vlm", text_config=text)
    assert says in error.do and "from transformers" not in error.do


def test_what_else_stands_against_it_is_said_too(tmp_path: Path) -> None:
    text = {"model_type": "llama"}
    error = _refusal(tmp_path, model_type="llava", text_config=text, quantization_config={"quant_method": "fp8"})
    assert "dequantise them first: fp8" in error.got
