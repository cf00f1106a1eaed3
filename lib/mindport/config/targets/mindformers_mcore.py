"""MindSpore Transformers' mcore networks for training (`use_legacy: False`): Megatron's names, fused projections.

`linear_qkv` holds, for each key/value head, its query heads, the key and the value; `linear_fc1` alternates rows of
gate and up. Source: mindformers 1.9.0, models/qwen3/utils.py (names) and parallel_core/utils/model_mixin.py,
`concat_qkv_interleaved` and `concat_linear_fc1_interleaved` (values).
"""

from __future__ import annotations

from mindport.config.dialect import Row
from mindport.config.targets.config_json import mindformers_config
from mindport.config.targets.target import LLAMA_LIKE, Need, Target, names_only

B, D = "blocks.{}.", "decoder.layers.{}."


def _qkv(what: str) -> str:
    return " ".join(f"{B}attn.{x}.{what}" for x in "qkv")


MINDFORMERS_MCORE = Target(
    name="mindformers-mcore",
    dialect=names_only("mindformers-mcore", (
        Row("embed.weight", "embedding.word_embeddings.weight"),
        Row(B + "norm1.weight", D + "input_layernorm.weight"),
        Row(_qkv("weight"), D + "self_attention.linear_qkv.weight", "grouped_qkv"),
        Row(_qkv("bias"), D + "self_attention.linear_qkv.bias", "grouped_qkv"),
        Row(B + "attn.q_norm.weight", D + "self_attention.q_layernorm.weight"),
        Row(B + "attn.k_norm.weight", D + "self_attention.k_layernorm.weight"),
        Row(B + "attn.o.weight", D + "self_attention.linear_proj.weight"),
        Row(B + "norm2.weight", D + "pre_mlp_layernorm.weight"),
        Row(f"{B}mlp.gate.weight {B}mlp.up.weight", D + "mlp.linear_fc1.weight", "interleave"),
        Row(B + "mlp.down.weight", D + "mlp.linear_fc2.weight"),
        Row("norm.weight", "decoder.final_layernorm.weight"),
        Row("head.weight", "output_layer.weight"),
    )),
    network="the training GPTModel of mindformers 1.9 to 2.1",
    needs=(
        *LLAMA_LIKE,
        Need("plain rotary positions", lambda c: c.rope is not None and c.rope.rope_type == "default"),
        Need("no bias on the attention's output", lambda c: not c.attention_out_bias),
    ),
    config_json=mindformers_config,
)  # fmt: skip
