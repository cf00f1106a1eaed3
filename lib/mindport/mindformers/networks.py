"""The networks that the YAML can name, and how each is told what the model is.

A legacy network is configured in the YAML alone; an mcore network reads config.json (`pretrained_model_dir`) and takes
from the YAML what that does not say. Source: mindformers 1.9.0, models/llama/llama_config.py, models/qwen3.
"""

from __future__ import annotations

from typing import Any

from mindport.config import ModelConfig
from mindport.config.targets import Target
from mindport.errors import ConfigError

LEGACY = ("mindformers-llama", "mindformers-llama-concat")
TRAINED = {"qwen3": "Qwen3ForCausalLM"}  # model_type → the class that trains; others are for inference only
_PRECISION = {"compute_dtype": "bfloat16", "softmax_compute_dtype": "float32", "layernorm_compute_dtype": "float32",
              "rotary_dtype": "float32", "params_dtype": "float32"}  # fmt: skip


def is_legacy(target: Target) -> bool:
    """Whether the network belongs to the older half of the package (`use_legacy`)."""
    return target.name in LEGACY


def check_network(config: ModelConfig, target: Target) -> None:
    """Stop where no release from 1.9 on has a network that trains these weights.

    Raises:
        ConfigError: says what there is instead.
    """
    if target.name == "mindformers-gpt2":
        raise ConfigError("MindSpore Transformers has no GPT-2 any more", got=target.name,
                          expected="a release up to 1.5, whose YAML is of another schema",
                          do="train with MindPort's own model, or write that YAML by hand")  # fmt: skip
    if not is_legacy(target) and config.model_type not in TRAINED:
        raise ConfigError("MindSpore Transformers does not train this family", got=config.model_type,
                          expected=", ".join(TRAINED), do="take mindformers-llama where the model fits it; qwen2 has a "
                          "network for inference, which reads the Hugging Face directory itself")  # fmt: skip


def model_section(config: ModelConfig, target: Target, seq_length: int) -> dict[str, Any]:
    """The `model` section of the graph schema."""
    if is_legacy(target):
        section = _legacy(config, seq_length) | {"qkv_concat": target.name == "mindformers-llama-concat"}
        return {"model_config": section, "arch": {"type": "LlamaForCausalLM"}}
    return {"model_config": mcore_section(seq_length)}


def mcore_section(seq_length: int) -> dict[str, Any]:
    """What config.json does not say: precisions, and the order of rows in the fused projections.

    Biases it does say (`attention_bias`), and the peer's converter stops when two keys say the same.
    """
    return {"seq_length": seq_length, **_PRECISION, "use_flash_attention": True,
            "use_contiguous_weight_layout_attention": False, "use_interleaved_weight_layout_mlp": True}  # fmt: skip


def _legacy(config: ModelConfig, seq_length: int) -> dict[str, Any]:
    eos = config.eos_token_id
    tokens = {"bos_token_id": config.bos_token_id, "eos_token_id": eos[0] if isinstance(eos, tuple) else eos}
    pad = -1 if config.pad_token_id is None else config.pad_token_id  # it masks this token; its default is a real one
    return {
        "type": "LlamaConfig",
        "seq_length": seq_length,
        "max_position_embedding": config.max_position_embeddings,
        "hidden_size": config.hidden_size,
        "num_layers": config.num_hidden_layers,
        "num_heads": config.num_attention_heads,
        "n_kv_heads": config.num_key_value_heads,
        "intermediate_size": config.intermediate_size,
        "vocab_size": config.vocab_rows,
        "rms_norm_eps": config.norm_eps,
        "tie_word_embeddings": config.tie_word_embeddings,
        "qkv_has_bias": config.qkv_bias,
        "attn_proj_has_bias": config.attention_out_bias,
        "init_method_std": config.initializer_range,
        **{key: value for key, value in tokens.items() if value is not None},
        "pad_token_id": pad,
        **_rope(config),
        "compute_dtype": "bfloat16",
        "softmax_compute_type": "float32",
        "layernorm_compute_type": "float32",
        "rotary_dtype": "float32",
        "param_init_type": "float32",
        "use_flash_attention": True,
        "fused_rms_norm": True,
    }


def _rope(config: ModelConfig) -> dict[str, Any]:
    rope = config.rope
    assert rope is not None  # the target's needs
    if rope.rope_type == "default":
        return {"theta": rope.rope_theta}
    numbers = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    scaling = {name: getattr(rope, name) for name in numbers}
    return {"theta": rope.rope_theta, "extend_method": "LLAMA3", "scaling_factor": scaling}
