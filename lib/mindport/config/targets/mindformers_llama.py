"""MindSpore Transformers' legacy LLaMA (`use_legacy: True`): names of Meta's code, nothing transposed.

Source: mindformers 1.9.0, models/llama/llama.py, `LlamaForCausalLM.convert_name` and `_concat_qkv_weight`.
"""

from __future__ import annotations

from mindport.config.dialect import Row, pair
from mindport.config.targets.target import BARE_QK, LLAMA_LIKE, Need, Target, names_only

B, M = "blocks.{}.", "model.layers.{}."
ROPE = ("default", "llama3")  # "linear" exists, but its check of the factor (modules/layers.py) refuses every number


def _qkv(what: str) -> str:
    return " ".join(f"{B}attn.{x}.{what}" for x in "qkv")


_EDGES = (
    Row("embed.weight", "model.tok_embeddings.embedding_weight"),
    Row(B + "norm1.weight", M + "attention_norm.weight"),
    *pair(B + "attn.o", M + "attention.wo"),
    Row(B + "norm2.weight", M + "ffn_norm.weight"),
    Row(B + "mlp.down.weight", M + "feed_forward.w2.weight"),
    Row("norm.weight", "model.norm_out.weight"),
    Row("head.weight", "lm_head.weight"),
)
_SPLIT = (
    *(row for x in "qkv" for row in pair(f"{B}attn.{x}", f"{M}attention.w{x}")),
    Row(B + "mlp.gate.weight", M + "feed_forward.w1.weight"),
    Row(B + "mlp.up.weight", M + "feed_forward.w3.weight"),
)
_CONCAT = (  # `qkv_concat: True`
    Row(_qkv("weight"), M + "attention.w_qkv.weight", "grouped_qkv"),
    Row(_qkv("bias"), M + "attention.w_qkv.bias", "grouped_qkv"),
    Row(f"{B}mlp.gate.weight {B}mlp.up.weight", M + "feed_forward.w_gate_hidden.weight", "interleave"),
)
_NEEDS = (
    *LLAMA_LIKE,
    BARE_QK,
    Need(f"rotary positions of type {', '.join(ROPE)}", lambda c: c.rope is not None and c.rope.rope_type in ROPE),
    Need("head_dim = hidden_size / heads", lambda c: c.head_dim * c.num_attention_heads == c.hidden_size),
)


def _target(name: str, rows: tuple[Row, ...]) -> Target:
    return Target(name, names_only(name, rows), "LlamaForCausalLM of mindformers ≤ 2.1, use_legacy", _NEEDS)


MINDFORMERS_LLAMA = _target("mindformers-llama", (*_EDGES, *_SPLIT))
MINDFORMERS_LLAMA_CONCAT = _target("mindformers-llama-concat", (*_EDGES, *_CONCAT))
