"""A GGUF file of the LLaMA architecture as a Hugging Face directory.

Only the `gguf` package's reader and dequantiser are used: seconds, where transformers' own GGUF path takes minutes and
cannot save the result. Everything is by table: a tensor or a setting that no table names stops the conversion.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mindport.errors import ConfigError, FileError, MappingError, some
from mindport.files import write_json
from mindport.sources.gguf_tokenizer import TokenizerFields, write_tokenizer

Array = np.ndarray[Any, np.dtype[Any]]
Precision = Literal["float16", "float32"]

OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",  # absent when the embedding is tied
}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
SETTINGS = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "context_length": "max_position_embeddings",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "vocab_size": "vocab_size",
}
ROPE_THETA = "rope.freq_base"
HEAD_DIM = ("attention.key_length", "attention.value_length", "rope.dimension_count")  # must agree where present


def convert(path: Path, directory: Path, precision: Precision = "float16") -> dict[str, int]:
    """Write `config.json`, `model.safetensors`, `generation_config.json` and the tokenizer into `directory`.

    Args:
        path: the GGUF file.
        directory: an existing, empty directory.
        precision: of the weights that are written; dequantised in fp32 first.

    Returns:
        How many tensors were stored in each GGUF type, as `{"Q4_1": 210, …}`.

    Raises:
        FileError: the file is damaged, or a value does not fit `precision`.
        ConfigError: another architecture, or a setting that is not in the tables.
        MappingError: a tensor is missing, unknown, or of the wrong shape.
    """
    reader = _open(path)
    fields = {key: field.contents() for key, field in reader.fields.items()}
    config = read_config(fields, tied="output.weight" not in {t.name for t in reader.tensors}, precision=precision)
    _write_weights(reader.tensors, config, directory / "model.safetensors", precision)
    write_json(directory / "config.json", config)
    token_ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    write_json(directory / "generation_config.json", token_ids)
    write_tokenizer(TokenizerFields.read(fields), directory, max_length=config["max_position_embeddings"])
    return _count_types(reader.tensors)


def _open(path: Path) -> Any:
    from gguf import GGUFReader

    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise FileError("the GGUF file cannot be read", where=path, got=error, do="fetch it again") from None


def read_config(fields: dict[str, Any], *, tied: bool, precision: Precision) -> dict[str, Any]:
    """config.json as transformers 5 writes it, from the GGUF key-value pairs.

    Raises:
        ConfigError: another architecture, a missing setting, or one that the table does not know.
    """
    if (architecture := fields.get("general.architecture")) != "llama":
        raise ConfigError("this GGUF architecture is not supported", got=architecture, expected="llama")
    settings = {k.removeprefix("llama."): v for k, v in fields.items() if k.startswith("llama.")}
    if unknown := sorted(settings.keys() - SETTINGS.keys() - {ROPE_THETA, *HEAD_DIM}):
        raise ConfigError("the GGUF file has settings that no table knows", got=some(unknown))
    if missing := sorted((SETTINGS.keys() | {ROPE_THETA}) - settings.keys()):
        raise ConfigError("the GGUF file lacks settings", expected=some(missing))
    named = {target: _shortest(settings[source]) for source, target in SETTINGS.items()}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **named,
        "head_dim": _head_dim(settings),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "rope_parameters": {"rope_type": "default", "rope_theta": _shortest(settings[ROPE_THETA])},
        "tie_word_embeddings": tied,
        **_token_ids(fields),
        "use_cache": True,
        "dtype": precision,
    }


def _head_dim(settings: dict[str, Any]) -> int:
    stated = {key: settings[key] for key in HEAD_DIM if key in settings}
    if len(set(stated.values())) > 1:
        raise ConfigError("the GGUF file gives several head dimensions", got=stated, expected="one")
    whole, rest = divmod(settings["embedding_length"], settings["attention.head_count"])
    if not stated and rest:
        raise ConfigError("the GGUF file gives no head dimension, and heads do not divide the width", got=settings)
    return int(next(iter(stated.values()), whole))


def _token_ids(fields: dict[str, Any]) -> dict[str, int | None]:
    ids = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    return {key: fields.get(f"tokenizer.ggml.{name}_token_id") for key, name in ids.items()}


def _shortest(value: Any) -> Any:
    """A float32 as the shortest decimal that means it: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _write_weights(tensors: list[Any], config: dict[str, Any], path: Path, precision: Precision) -> None:
    from safetensors.numpy import save_file

    names = _names([tensor.name for tensor in tensors], config)
    weights = {names[tensor.name]: _weight(tensor, config, precision) for tensor in tensors}
    save_file(weights, path, metadata={"format": "pt"})


def _names(found: list[str], config: dict[str, Any]) -> dict[str, str]:
    """GGUF name → Hugging Face name for exactly the tensors that the config calls for."""
    layers = range(config["num_hidden_layers"])
    table = {f"blk.{i}.{a}.weight": f"model.layers.{i}.{b}.weight" for i in layers for a, b in LAYER.items()}
    table |= {
        f"{a}.weight": f"{b}.weight" for a, b in OUTER.items() if a != "output" or not config["tie_word_embeddings"]
    }
    missing, unknown = sorted(table.keys() - set(found)), sorted(set(found) - table.keys())
    if missing or unknown:
        raise MappingError(
            "the GGUF file's tensors are not those of a LLaMA",
            got=f"unknown: {some(unknown) or 'none'}",
            expected=f"missing: {some(missing) or 'none'}",
        )
    return table


def _weight(tensor: Any, config: dict[str, Any], precision: Precision) -> Array:
    """One tensor as a contiguous array in Hugging Face's row order."""
    from gguf.quants import dequantize

    weight = dequantize(tensor.data, tensor.tensor_type)
    if weight.shape != (expected := _shape(tensor.name, config)):
        raise MappingError("a GGUF tensor has the wrong shape", where=tensor.name, got=weight.shape, expected=expected)
    if tensor.name.endswith("attn_q.weight"):
        weight = unpermute(weight, config["num_attention_heads"])
    if tensor.name.endswith("attn_k.weight"):
        weight = unpermute(weight, config["num_key_value_heads"])
    with np.errstate(over="ignore"):  # said below, with the tensor's name
        weight = np.ascontiguousarray(weight, dtype=precision)
    if not np.isfinite(weight).all():
        raise FileError(f"a weight is not finite in {precision}", where=tensor.name, do="convert to float32")
    return weight


def unpermute(weight: Array, heads: int) -> Array:
    """Rows of q or k from GGUF's rotary order (pairs side by side) to Hugging Face's (halves).

    llama.cpp rotates neighbours (0, 1), (2, 3), …; transformers rotates (0, D/2), (1, D/2 + 1), …, and its GGUF writer
    reorders the rows of each head accordingly (`LlamaModel.permute` in convert_hf_to_gguf.py).
    """
    rows, columns = weight.shape  # (H * D, C)
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _shape(name: str, config: dict[str, Any]) -> tuple[int, ...]:
    width, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    part = re.sub(r"^blk\.\d+\.|\.weight$", "", name)
    matrices = {
        "attn_q": (queries, width), "attn_k": (keys, width), "attn_v": (keys, width), "attn_output": (width, queries),
        "ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner),
        "token_embd": (config["vocab_size"], width), "output": (config["vocab_size"], width),
    }  # fmt: skip
    return matrices.get(part, (width,))  # the rest are norms


def _count_types(tensors: list[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for tensor in tensors:
        counts[tensor.tensor_type.name] = counts.get(tensor.tensor_type.name, 0) + 1
    return counts
