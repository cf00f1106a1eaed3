"""What transformers and torch themselves save goes over, and what comes back loads in them and in MindSpore."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from mindport.errors import ConfigError
from mindport.mindformers import export
from mindport.weights import convert, load, verify_round_trip
from mindport.weights.dtypes import CODES, NUMPY
from tests.families import FAMILIES, build, decoder

GPT2 = {"vocab_size": 61, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 33, "n_inner": 52,
        "bos_token_id": 0, "eos_token_id": 0}  # fmt: skip
LLAMA = {"vocab_size": 61, "hidden_size": 20, "intermediate_size": 44, "num_hidden_layers": 3, "head_dim": 6,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}  # fmt: skip


def _model(family: str, dtype: str = "float32", **changes: Any) -> Any:
    """A random model of the real class: norms that are not one, biases that are not zero."""
    import torch
    import transformers as hf

    torch.manual_seed(0)
    config, model = {"gpt2": (hf.GPT2Config, hf.GPT2LMHeadModel), "llama": (hf.LlamaConfig, hf.LlamaForCausalLM)}[
        family
    ]
    made = model(config(**{**(GPT2 if family == "gpt2" else LLAMA), **changes})).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 + 0.1)
    return made.to(getattr(torch, dtype))


def _bits(x: Any) -> bytes:
    """The bytes of a torch tensor."""
    import torch

    return x.detach().contiguous().view(torch.uint8).numpy().tobytes()


CASES = [
    ("gpt2", "float32", {}),
    ("gpt2", "float16", {"tie_word_embeddings": False}),
    ("llama", "float32", {"attention_bias": True, "mlp_bias": True}),
    ("llama", "bfloat16", {}),
    ("llama", "float16", {"tie_word_embeddings": True}),
]


@pytest.mark.parametrize("shard_size", ["5GB", "9KB"])
@pytest.mark.parametrize(("family", "dtype", "changes"), CASES)
def test_what_save_pretrained_wrote_comes_back_identical(
    family: str, dtype: str, changes: dict[str, Any], shard_size: str, tmp_path: Path
) -> None:
    model = _model(family, dtype, **changes)
    model.save_pretrained(tmp_path / "hf", max_shard_size=shard_size)
    report = convert(tmp_path / "hf", tmp_path / "ms", progress=False)
    trip = verify_round_trip(tmp_path / "hf", tmp_path / "ms", progress=False)
    assert report.ok and trip.ok and trip.identical == trip.files
    assert (len(trip.files) > 2) == (shard_size == "9KB")
    w, state = load(tmp_path / "ms"), model.state_dict()
    assert report.accounting.parameters == sum(p.numel() for p in model.parameters())
    if family == "llama":
        assert w["blocks.2.attn.v.weight"].tobytes() == _bits(state["model.layers.2.self_attn.v_proj.weight"])
    else:
        assert w["blocks.2.attn.o.weight"].tobytes() == _bits(state["transformer.h.2.attn.c_proj.weight"].T)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_comes_back_identical_and_computes_the_same(name: str, dtype: str, tmp_path: Path) -> None:
    import torch

    model = build(*FAMILIES[name]).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path / "hf", max_shard_size="9KB")
    report = convert(tmp_path / "hf", tmp_path / "ms", progress=False)
    trip = verify_round_trip(tmp_path / "hf", tmp_path / "ms", progress=False)
    assert report.ok and trip.ok and trip.identical == trip.files and len(trip.files) > 2
    assert report.accounting.parameters == sum(p.numel() for p in model.parameters())
    convert(tmp_path / "ms", tmp_path / "back", to="huggingface", progress=False)
    again = type(model).from_pretrained(tmp_path / "back", attn_implementation="eager").eval()
    ids = torch.arange(23)[None]
    if dtype == "float32":  # in bfloat16 a model that was cast has coarser rotary frequencies than one that was loaded
        with torch.no_grad():
            assert torch.equal(model(ids).logits, again(ids).logits)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_what_comes_back_loads_and_gives_the_same_logits(family: str, tmp_path: Path) -> None:
    import torch

    model = _model(family)
    model.save_pretrained(tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "ms", progress=False)
    convert(tmp_path / "ms", tmp_path / "back", to="huggingface", progress=False)
    again, ids = type(model).from_pretrained(tmp_path / "back"), torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, again.eval()(ids).logits)


@pytest.mark.parametrize("bare", [False, True])
def test_an_old_gpt2_bin_with_buffers_and_a_tied_head(bare: bool, tmp_path: Path) -> None:
    import torch

    model = _model("gpt2", "float16")
    model.config.save_pretrained(tmp_path / "hf")
    state = dict((model.transformer if bare else model).state_dict())
    prefix = "" if bare else "transformer."
    state |= {f"{prefix}h.{i}.attn.bias": torch.ones(1, 1, 33, 33, dtype=torch.uint8) for i in range(3)}
    state |= {f"{prefix}h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(3)}
    torch.save(state, tmp_path / "hf/pytorch_model.bin")
    report = convert(tmp_path / "hf", tmp_path / "ms", progress=False)
    a = report.accounting
    assert (a.converted, a.dropped, a.tied, report.prefix) == (40, 6, 0 if bare else 1, prefix)
    trip = verify_round_trip(tmp_path / "hf", tmp_path / "ms", progress=False)
    assert trip.ok and trip.identical is None and trip.equal == (40 if bare else 41)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_both_formats_load_in_mindspore_with_the_same_bits(dtype: str, tmp_path: Path) -> None:
    import mindspore

    _model("llama", dtype).save_pretrained(tmp_path / "hf")
    for file_format, name in (("safetensors", "model.safetensors"), ("ckpt", "model.ckpt")):
        target = tmp_path / file_format
        assert convert(tmp_path / "hf", target, file_format=file_format, progress=False).ok
        found = mindspore.load_checkpoint(str(target / name), format=file_format)
        w = load(target)
        assert found.keys() == w.keys()
        assert all(found[key].asnumpy().tobytes() == w[key].tobytes() for key in w)
        assert {str(x.dtype) for x in w.values()} == {found[key].asnumpy().dtype.name for key in w} == {dtype}
        assert {x.dtype for x in w.values()} == {NUMPY[CODES[dtype]]}  # by name, MindSpore's own would come


def test_safetensors_need_no_framework(tmp_path: Path) -> None:
    _model("llama").save_pretrained(tmp_path / "hf")
    code = """
import sys
from mindport.errors import ConfigError
from mindport.mindformers import export
from mindport.weights import convert, load, verify_round_trip
from mindport.weights.dtypes import CODES, NUMPY
convert(sys.argv[1], sys.argv[2], progress=False)
load(sys.argv[2])["embed.weight"]
assert verify_round_trip(sys.argv[1], sys.argv[2], progress=False).ok
print(sorted({"torch", "mindspore", "transformers"} & sys.modules.keys()))
"""
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "hf"), str(tmp_path / "ms")],
                         capture_output=True, text=True, check=True)  # fmt: skip
    assert run.stdout.strip() == "[]" and run.stderr == ""


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("qwen2", {"hidden_size": 24}),
        ("qwen3", {"head_dim": 8}),
        ("qwen3", {"head_dim": 8, "tie_word_embeddings": True}),
    ],
)
def test_qwen_goes_to_mcore_and_comes_back_identical(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    build(family, decoder(**changes)).save_pretrained(tmp_path / "hf")
    assert convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-mcore", progress=False).ok
    names = load_file(tmp_path / "mf/model.safetensors")
    assert ("decoder.layers.2.self_attention.linear_qkv.bias" in names) == (family == "qwen2")
    assert ("decoder.layers.2.self_attention.q_layernorm.weight" in names) == (family == "qwen3")
    convert(tmp_path / "mf", tmp_path / "back", to="huggingface", progress=False)
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "back" / file).read_bytes() == (tmp_path / "hf" / file).read_bytes()
    if family == "qwen3":
        for schema in ("graph", "pynative"):
            assert export(tmp_path / "mf", tmp_path / f"{schema}.yaml", "dp1,tp1,pp3", schema).ok
    else:
        with pytest.raises(ConfigError, match="does not train this family"):
            export(tmp_path / "mf", tmp_path / "x.yaml")
