"""MindSpore Transformers' GPT-2, which releases up to 1.5 had: q, k and v apart, most weights [in, out].

Source: mindformers 1.3.2, models/gpt2/convert_weight.py: c_attn is cut in three and transposed to [out, in]; the other
three linear maps stay as Conv1D has them, [in, out].
"""

from __future__ import annotations

from mindport.config.dialect import Row, pair
from mindport.config.targets.target import BARE_QK, COMMON, Need, Target, names_only

B, K = "blocks.{}.", "backbone.blocks.{}."


def _norm(hub: str, foreign: str) -> tuple[Row, Row]:
    return Row(f"{hub}.weight", f"{foreign}.gamma"), Row(f"{hub}.bias", f"{foreign}.beta")


MINDFORMERS_GPT2 = Target(
    name="mindformers-gpt2",
    dialect=names_only("mindformers-gpt2", (
        Row("embed.weight", "backbone.embedding.word_embedding.embedding_table"),
        Row("position.weight", "backbone.embedding.position_embedding.embedding_table"),
        *_norm(B + "norm1", K + "layernorm1"),
        *(row for i, x in enumerate("qkv", 1) for row in pair(f"{B}attn.{x}", f"{K}attention.dense{i}")),
        *pair(B + "attn.o", K + "attention.projection", "transpose"),
        *_norm(B + "norm2", K + "layernorm2"),
        *pair(B + "mlp.up", K + "output.mapping", "transpose"),
        *pair(B + "mlp.down", K + "output.projection", "transpose"),
        *_norm("norm", "backbone.layernorm"),
    )),
    network="GPT2LMHeadModel of mindformers up to 1.5",
    needs=(
        *COMMON,
        BARE_QK,
        Need("layer norm", lambda c: c.norm == "layer"),
        Need("a table of positions", lambda c: c.position == "learned"),
        Need("a plain MLP with tanh-GELU", lambda c: not c.gated_mlp and c.hidden_act == "gelu_tanh"),
        Need("biases in every linear map", lambda c: c.qkv_bias and c.attention_out_bias and c.mlp_bias),
        Need("one key/value head for each query head", lambda c: c.num_key_value_heads == c.num_attention_heads),
        Need("heads that fill hidden_size", lambda c: c.head_dim * c.num_attention_heads == c.hidden_size),
        Need("a head tied to the embedding", lambda c: c.tie_word_embeddings),
    ),
)  # fmt: skip
