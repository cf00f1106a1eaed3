"""Faults of the code: the weights are right, and a cell computes something else.

Here they are described; `patches` has them in MindSpore, and is imported when one is planted.
"""

from __future__ import annotations

from mindport.config.model_config import ModelConfig
from mindport.debug.faults.fault import Fault

CONTEXT, NORM, HIDDEN = "blocks.0.attn.context", "blocks.0.norm1", "blocks.0.mlp.hidden"


def _rotary(config: ModelConfig) -> bool:
    return config.position == "rope"


def _grouped(config: ModelConfig) -> bool:
    return 1 < config.num_key_value_heads < config.num_attention_heads


def _last(config: ModelConfig) -> str:
    return f"blocks.{config.num_hidden_layers - 1}.norm1"


FAULTS = (
    Fault("no_mask", "no causal mask: every query sees every key", CONTEXT, ("mask_missing",), code=True),
    Fault("mask_reversed", "the mask is reversed: a query sees itself and what follows", CONTEXT, ("mask_reversed",),
          code=True),
    Fault("mask_zero", "hidden scores are filled with 0, not with -inf", CONTEXT, ("mask_zero",), code=True),
    Fault("mask_late", "the mask is one key late: a query sees the token that it should foretell", CONTEXT,
          ("mask_shifted",), code=True),
    Fault("mask_after", "the weights are masked after the softmax, and do not sum to 1", CONTEXT, ("mask_after",),
          code=True),
    Fault("softmax_axis", "the softmax runs over the queries, not over the keys", CONTEXT, ("softmax_axis",),
          code=True),
    Fault("scale_width", "the scores are divided by √hidden_size", CONTEXT, ("score_scale",), code=True),
    Fault("scale_twice", "the scores are divided by √head_dim twice, in q and in the product", CONTEXT,
          ("score_scale",), code=True),
    Fault("score_cap", "the scores are capped, as in another family", CONTEXT, ("score_cap",), code=True),
    Fault("kv_tiled", "the key/value heads are tiled, not repeated", CONTEXT, ("kv_tiled",), code=True,
          applies=_grouped),
    Fault("heads_merged", "the heads are put together number by number, not one after the other", CONTEXT,
          ("heads_merged",), code=True),
    Fault("rope_missing", "q and k are not rotated", CONTEXT, ("rope_missing",), code=True, applies=_rotary),
    Fault("rope_pairs", "neighbours turn together, not the halves of a head", CONTEXT, ("rope_pairs",), code=True,
          applies=_rotary),
    Fault("rope_backwards", "the sine has the wrong sign", CONTEXT, ("rope_backwards",), code=True, applies=_rotary),
    Fault("rope_late", "the keys' positions are one ahead of the queries'", CONTEXT, ("rope_positions",), code=True,
          applies=_rotary),
    Fault("rope_on_v", "v is rotated as well", CONTEXT, ("rope_on_v",), code=True, applies=_rotary),
    Fault("qk_norm_after", "q and k are normalised after the rotation", CONTEXT, ("qk_norm_after",), code=True,
          applies=lambda c: c.qk_norm),
    Fault("norm_kind", "RMS norm for layer norm, or the reverse", NORM, ("norm_kind",), code=True),
    Fault("norm_variance", "the variance is divided by n - 1, not by n", NORM, ("norm_variance",), code=True,
          applies=lambda c: c.norm == "layer"),
    Fault("eps_outside", "the epsilon is added to the deviation, not to the variance", NORM, ("norm_eps_place",),
          code=True),
    Fault("quick_gelu", "x σ(1.702 x) in the place of GELU", HIDDEN, ("activation",), code=True,
          applies=lambda c: c.hidden_act in ("gelu", "gelu_tanh")),
    Fault("gate_on_up", "the activation is on up, not on gate", HIDDEN, ("gate_on_up",), code=True,
          applies=lambda c: c.gated_mlp),
    Fault("bias_twice", "each of two ranks adds the bias", "blocks.0.attn.q", ("bias_twice",), code=True,
          applies=lambda c: c.qkv_bias),
    Fault("post_norm", "the norms stand after the sum, not before attention and MLP", "blocks.0", ("residual",),
          code=True),
    Fault("no_residual", "attention's output takes the place of the residual stream", "blocks.0", ("residual",),
          code=True),
    Fault("final_norm", "the last norm is left out", "norm", ("never_run",), code=True),
    Fault("layer_skipped", "the last layer is left out", _last, ("never_run",), code=True),
    Fault("run_backwards", "the layers run from last to first", "blocks.0", ("order_of_layers",), code=True),
    Fault("positions_ahead", "positions are counted from 1", "position", ("positions_shifted",), code=True,
          applies=lambda c: c.position == "learned"),
    Fault("dropout", "dropout is on in evaluation", "blocks.0.attn", ("dropout",), code=True,
          applies=lambda c: c.resid_pdrop > 0),
    Fault("random_numbers", "a buffer that nobody fills is added: two runs differ", HIDDEN, ("not_repeatable",),
          code=True),
)  # fmt: skip
