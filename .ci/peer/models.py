"""Tiny models in Hugging Face's format, converted and exported as a user does it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load_file, save_file

from mindport.config.targets import TARGETS
from mindport.files import write_text
from mindport.mindformers import Recipe, export, parse_layout
from mindport.mindformers.graph import graph
from mindport.mindformers.networks import TRAINED
from mindport.mindformers.stages import stage_of
from mindport.weights import convert, open_converted

LAYOUT = "dp1,tp2,pp1"
LLAMA = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32, "rope_theta": 500_000.0}  # fmt: skip
PLAIN = {"rope_type": "default", "rope_theta": 10_000.0}


def llama_cases(work: Path) -> dict[str, dict[str, Any]]:
    """The legacy network, with logits of transformers' own class."""
    variants = {
        "llama": ("mindformers-llama", {"rope_parameters": PLAIN}),
        "llama, tied": ("mindformers-llama", {"rope_parameters": PLAIN, "tie_word_embeddings": True}),
        "llama, attention biases": ("mindformers-llama", {"rope_parameters": PLAIN, "attention_bias": True}),
        "llama, llama3 rope": ("mindformers-llama", {"rope_parameters": LLAMA3}),
        "llama, qkv_concat": ("mindformers-llama-concat", {"rope_parameters": PLAIN}),
    }
    cases = {name: _llama(work / name.replace(", ", "-").replace(" ", "-"), *variant)
             for name, variant in variants.items()}  # fmt: skip
    first = cases["llama"]
    return cases | {"control: gate and up exchanged": _exchanged(first), "control: padding left at 0": _padded(first)}


def _exchanged(case: dict[str, Any]) -> dict[str, Any]:
    """The fault that no shape shows: gate and up of one layer change places, and the logits must say so."""
    tensors = load_file(case["weights"])
    gate, up = (f"model.layers.1.feed_forward.{x}.weight" for x in ("w1", "w3"))
    tensors[gate], tensors[up] = tensors[up], tensors[gate]
    file = Path(case["weights"]).with_name("exchanged.safetensors")
    save_file(tensors, file)
    return {**case, "weights": str(file), "control": True}


def _padded(case: dict[str, Any]) -> dict[str, Any]:
    """Token 0 is a word here; the peer masks its padding token, which is 0 unless the YAML says otherwise."""
    text = Path(case["yaml"]).read_text()
    file = Path(case["yaml"]).with_name("padded.yaml")
    return {**case, "yaml": str(write_text(file, text.replace("pad_token_id: -1", "pad_token_id: 0"))), "control": True}


def _llama(folder: Path, target: str, changes: dict[str, Any]) -> dict[str, Any]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**LLAMA, **changes)).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.normal_(parameter, float("norm" in name), 0.3)
        else:
            torch.nn.init.normal_(parameter, 0.0, 0.06)
    model.save_pretrained(folder / "huggingface")
    ids = np.random.default_rng(2).integers(0, LLAMA["vocab_size"], (2, 96))
    np.save(folder / "ids.npy", ids)
    with torch.no_grad():
        np.save(folder / "logits.npy", model(torch.from_numpy(ids)).logits.numpy())
        np.save(folder / "exact.npy", model.double()(torch.from_numpy(ids)).logits.numpy())
    convert(folder / "huggingface", folder / "mindformers", to=target, progress=False)
    export(folder / "mindformers", folder / "train.yaml", layout=LAYOUT)
    return {"kind": "legacy", "yaml": str(folder / "train.yaml"), "ids": str(folder / "ids.npy"),
            "weights": str(folder / "mindformers/model.safetensors"), "logits": str(folder / "logits.npy"),
            "exact": str(folder / "exact.npy")}  # fmt: skip


def mcore_cases(work: Path) -> dict[str, dict[str, Any]]:
    """The training network of mcore: norms on q and k (qwen3), biases under grouped queries (qwen2); both schemas."""
    variants = {
        "qwen3": {"head_dim": 16},
        "qwen3, tied": {"head_dim": 16, "tie_word_embeddings": True},
        "qwen2": {},
    }
    cases = {name: _qwen(work / name.replace(", ", "-"), name.partition(",")[0], changes)
             for name, changes in variants.items()}  # fmt: skip
    other = export(
        work / "qwen3/mindformers", work / "pynative.yaml", "dp4,tp2,pp2,zero2,sp,recompute-full,mb4", "pynative"
    )
    return cases | {"qwen3, PyNative schema": {"kind": "pynative", "yaml": str(other.yaml)}}


LAYOUTS = (
    ("llama", "layout", "dp2,tp2,pp2,zero2,sp,recompute-selective,mb4"),
    ("llama", "layout", "dp4,tp2,cp2,zero1,recompute-full,mb8"),
    ("qwen3", "mcore layout", "dp2,tp2,pp2,cp2,zero1,sp,recompute-selective,mb6"),
)


def layout_cases(work: Path) -> dict[str, dict[str, Any]]:
    """Whole layouts: stages of the layers, samples of a step and what is recomputed, as the peer reads them."""
    cases = {}
    for family, kind, text in LAYOUTS:
        file = work / f"{family}-{text.replace(',', '-')}.yaml"
        report = export(work / family / "mindformers", file, text, recipe=Recipe(batch_size=3))
        layout, again = report.layout, report.sections["recompute_config"]["select_recompute"]
        wanted = {"stages": stage_of(LLAMA["num_hidden_layers"], layout.pp), "recomputed": sorted(again or []),
                  "samples of a step": 3 * layout.dp * layout.micro_batches}  # fmt: skip
        cases[f"{family}, {text}"] = {"kind": kind, "yaml": str(file), "wanted": wanted}
    first = next(iter(cases.values()))
    sections = yaml.safe_load(Path(first["yaml"]).read_text())
    del sections["model"]["model_config"]["offset"]
    spoiled = write_text(work / "no-offset.yaml", yaml.safe_dump(sections, sort_keys=False))
    return cases | {"control: no offset": {**first, "kind": "refuses", "yaml": str(spoiled)}}


def _qwen(folder: Path, family: str, changes: dict[str, Any]) -> dict[str, Any]:
    import torch
    import transformers

    name = {"qwen2": "Qwen2", "qwen3": "Qwen3"}[family]
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(1)
    config = getattr(transformers, name + "Config")(**LLAMA, rope_parameters=PLAIN, **changes)
    model = getattr(transformers, name + "ForCausalLM")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.2)
    model.save_pretrained(folder / "huggingface")
    convert(folder / "huggingface", folder / "mindformers", to="mindformers-mcore", progress=False)
    if family in TRAINED:
        export(folder / "mindformers", folder / "train.yaml", layout=LAYOUT)
    else:
        _write_yaml(folder)
    return {"kind": "mcore", "yaml": str(folder / "train.yaml"), "qk_norm": family == "qwen3",
            "weights": str(folder / "mindformers/model.safetensors"),
            "huggingface": str(folder / "huggingface/model.safetensors")}  # fmt: skip


def _write_yaml(folder: Path) -> None:
    """What `export` refuses for qwen2, of which the peer has no training class, nor a key for the biases."""
    config = open_converted(folder / "mindformers").config
    sections = graph(folder / "mindformers", config, TARGETS["mindformers-mcore"], parse_layout(LAYOUT), Recipe())
    sections["model"]["model_config"]["add_qkv_bias"] = config.qkv_bias
    write_text(folder / "train.yaml", yaml.safe_dump(sections, sort_keys=False))
