"""The plan: every tensor one fate, and a refusal with a reason for everything else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindport.config import DIALECTS, schema
from mindport.config.dialect import Row
from mindport.errors import MappingError
from mindport.weights.plan import foreign_shapes, plan, table
from tests.weights.models import FAMILIES, config_of

Shapes = dict[str, Any]
L0 = "model.layers.0."


def _case(family: str, tmp_path: Path, **changes: Any) -> tuple[Any, Any, Shapes]:
    dialect, config = DIALECTS[family], config_of({**FAMILIES[family], **changes}, tmp_path)
    return dialect, config, foreign_shapes(table(dialect, config))


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gpt2", {}),
        ("gpt2", {"tie_word_embeddings": False}),
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True}),
        ("llama", {"attention_bias": True, "mlp_bias": True}),
    ],
)
def test_each_hub_parameter_is_written_once_and_each_tensor_read_once(
    family: str, changes: Shapes, tmp_path: Path
) -> None:
    dialect, config, shapes = _case(family, tmp_path, **changes)
    made = plan(dialect, config, shapes)
    written = [name for step in made.steps for name in step.hub]
    assert written == list(dict.fromkeys(written)) and set(written) == set(schema.shapes(config))
    assert made.fates() == dict.fromkeys(shapes, "converted")


def test_the_prefix_is_taken_from_the_names(tmp_path: Path) -> None:
    dialect, config, shapes = _case("gpt2", tmp_path)
    bare = {name.removeprefix("transformer."): shape for name, shape in shapes.items()}
    assert plan(dialect, config, shapes).prefix == "transformer."
    assert plan(dialect, config, bare).prefix == ""


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "module._orig_mod.module.", "model.", "transformer."])
@pytest.mark.parametrize(("family", "tied"), [("gpt2", True), ("gpt2", False), ("llama", False)])
def test_a_wrapper_stands_before_every_name(family: str, tied: bool, wrapper: str, tmp_path: Path) -> None:
    dialect, config, shapes = _case(family, tmp_path, tie_word_embeddings=tied)
    made = plan(dialect, config, {wrapper + name: shape for name, shape in shapes.items()})
    assert made.prefix == wrapper + dialect.prefix
    assert {step.foreign for step in made.steps} == {wrapper + name for name in shapes}


def test_buffers_and_copies_are_known_behind_a_wrapper(tmp_path: Path) -> None:
    dialect, config, shapes = _case("gpt2", tmp_path)
    extra = {"transformer.h.0.attn.bias": (1, 1, 19, 19), "lm_head.weight": (37, 24)}
    made = plan(dialect, config, {"module." + name: shape for name, shape in (shapes | extra).items()})
    assert (made.dropped, made.tied) == (("module.transformer.h.0.attn.bias",), ("module.lm_head.weight",))


def test_named_buffers_are_dropped_and_only_within_the_layers(tmp_path: Path) -> None:
    dialect, config, shapes = _case("gpt2", tmp_path)
    buffers = ["transformer.h.0.attn.bias", "transformer.h.2.attn.masked_bias"]
    made = plan(dialect, config, shapes | dict.fromkeys(buffers, (1, 1, 19, 19)))
    assert made.dropped == tuple(buffers)
    assert made.fates()["transformer.h.0.attn.c_attn.bias"] == "converted"
    with pytest.raises(MappingError, match=r"h\.3\.attn\.bias"):
        plan(dialect, config, shapes | {"transformer.h.3.attn.bias": (1, 1, 19, 19)})


def test_a_head_beside_a_tied_embedding_is_a_duplicate(tmp_path: Path) -> None:
    dialect, config, shapes = _case("llama", tmp_path, tie_word_embeddings=True)
    made = plan(dialect, config, shapes | {"lm_head.weight": (41, 20)})
    assert made.tied == ("lm_head.weight",) and made.embedding == "model.embed_tokens.weight"
    with pytest.raises(MappingError, match=r"lm_head.weight \[41, 21\] instead of \[41, 20\]"):
        plan(dialect, config, shapes | {"lm_head.weight": (41, 21)})


def test_names_without_shapes_are_planned_too(tmp_path: Path) -> None:
    dialect, config, shapes = _case("llama", tmp_path)
    assert len(plan(dialect, config, dict.fromkeys(shapes)).steps) == len(shapes)


def _drop(name: str) -> Callable[[Shapes], Shapes]:
    return lambda shapes: {key: shape for key, shape in shapes.items() if key != name}


def _add(name: str, shape: Any = (6,)) -> Callable[[Shapes], Shapes]:
    return lambda shapes: shapes | {name: shape}


def _rename(old: str, new: str) -> Callable[[Shapes], Shapes]:
    return lambda shapes: {key.replace(old, new): shape for key, shape in shapes.items()}


FAULTS: dict[str, tuple[str, Shapes, Callable[[Shapes], Shapes], tuple[str, ...]]] = {
    "missing": ("llama", {}, _drop("model.norm.weight"), ("1 missing: model.norm.weight",)),
    "unexpected": ("llama", {}, _add("model.extra.weight"), ("1 unexpected: model.extra.weight",)),
    "wrong shape": ("llama", {}, _add(L0 + "mlp.up_proj.weight", (3, 3)), ("[3, 3] instead of [44, 20]",)),
    "transposed": ("llama", {}, _add(L0 + "mlp.up_proj.weight", (20, 44)), ("lies transposed",)),
    "all three at once": (
        "llama",
        {},
        lambda s: _add("x.weight")(_drop("model.norm.weight")(s)) | {"lm_head.weight": (1, 2)},
        ("1 missing", "1 unexpected", "1 of wrong shape"),
    ),
    "nothing matches": ("llama", {}, lambda s: {"a": (1,)}, ("not one tensor", "30 missing", "(0 found)")),
    "no tensors": ("gpt2", {}, lambda s: {}, ("not one tensor",)),
    "q_norm": ("llama", {}, _add(L0 + "self_attn.q_norm.weight"), ("Qwen3",)),
    "bias without its key": (
        "llama",
        {},
        _add(L0 + "self_attn.q_proj.bias", (24,)),
        ("attention_bias", "qkv_bias = false"),
    ),
    "key without its bias": (
        "llama",
        {"mlp_bias": True},
        lambda s: {n: x for n, x in s.items() if not n.endswith(".bias")},
        ("9 missing", "mlp_bias = true"),
    ),
    "untied without a head": ("llama", {}, _drop("lm_head.weight"), ("tie_word_embeddings = false",)),
    "added tokens": ("llama", {}, _add("lm_head.weight", (42, 20)), ("42 rows", "vocab_size says 41", "resize_token")),
    "bitsandbytes": ("llama", {}, _add(L0 + "mlp.up_proj.SCB"), ("quantised", "dequantise")),
    "GPTQ": ("llama", {}, _rename("up_proj.weight", "up_proj.qweight"), ("quantised",)),
    "fp8": ("llama", {}, _add(L0 + "mlp.up_proj.weight_scale_inv"), ("quantised",)),
    "LoRA": ("llama", {}, _add("base_model.model.x.lora_A.weight"), ("merge_and_unload",)),
    "base_model.": ("llama", {}, lambda s: {"base_model." + n: x for n, x in s.items()}, ("(base_model.)",)),
    "multimodal": (
        "llama",
        {},
        lambda s: {"language_model." + n: x for n, x in s.items()},
        ("take its text model out",),
    ),
    "half a wrapper": ("llama", {}, _rename("model.norm", "module.model.norm"), ("some names have the prefix",)),
    "wrappers without end": (
        "llama",
        {},
        lambda s: {"module." * 9 + n: x for n, x in s.items()},
        ("not one tensor",),
    ),
    "a head without the wrapper": (
        "llama",
        {},
        lambda s: {"module." * (n != "lm_head.weight") + n: x for n, x in s.items()},
        ("1 missing: module.lm_head.weight", "1 unexpected: lm_head.weight"),
    ),
    "a wrapper and one tensor too many": (
        "gpt2",
        {},
        lambda s: {"_orig_mod." + n: x for n, x in s.items()} | {"_orig_mod.x": (1,)},
        ("1 unexpected: _orig_mod.x",),
    ),
    "phi3": ("llama", {}, _add(L0 + "self_attn.qkv_proj.weight"), ("Phi-3",)),
    "experts": ("llama", {}, _add(L0 + "mlp.experts.0.w1.weight"), ("mixture-of-experts",)),
    "inner model": (
        "llama",
        {},
        lambda s: {n.removeprefix("model."): x for n, x in s.items() if n != "lm_head.weight"},
        ("not one tensor", 'without "model."'),
    ),
    "Meta's names": (
        "llama",
        {},
        lambda s: {n.replace("model.layers.0.self_attn.q_proj", "layers.0.attention.wq"): x for n, x in s.items()},
        ("Meta's own names",),
    ),
    "another head": ("gpt2", {}, _add("score.weight"), ("Another head (score)",)),
    "more layers than the config": (
        "llama",
        {"num_hidden_layers": 2},
        lambda s: s | {name.replace("s.1.", "s.2."): x for name, x in s.items()},
        ("layers up to 2", "says 2 layers"),
    ),
    "fewer layers than the config": (
        "llama",
        {},
        lambda s: {n: x for n, x in s.items() if ".layers.2." not in n},
        ("9 missing", "num_hidden_layers = 3"),
    ),
    "half a prefix": ("gpt2", {}, _rename("transformer.wte", "wte"), ("some names have the prefix",)),
    "a buffer of another name": ("gpt2", {}, _add("transformer.h.0.attn.bias_mask"), ("1 unexpected",)),
    "a layer's number in another script": ("gpt2", {}, _add("transformer.h.٠.attn.bias"), ("1 unexpected",)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_with_its_reason(fault: str, tmp_path: Path) -> None:
    family, changes, spoil, fragments = FAULTS[fault]
    dialect, config, shapes = _case(family, tmp_path, **changes)
    with pytest.raises(MappingError) as raised:
        plan(dialect, config, spoil(shapes), tmp_path)
    for fragment in fragments:
        assert fragment in str(raised.value), raised.value


def test_a_table_that_forgets_a_parameter_is_caught(tmp_path: Path) -> None:
    dialect, config, _ = _case("llama", tmp_path)
    short = dataclasses.replace(dialect, rows=dialect.rows[1:])
    with pytest.raises(MappingError, match=r"one row(.|\n)*embed.weight"):
        table(short, config)
    twice = dataclasses.replace(dialect, rows=(*dialect.rows, Row("norm.weight", "model.norm2.weight")))
    with pytest.raises(MappingError, match=r"one row(.|\n)*norm.weight"):
        table(twice, config)
