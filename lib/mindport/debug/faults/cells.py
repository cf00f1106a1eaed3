"""Faults of the code: the weights are right, and a cell computes something else.

Here they are described; `patches` has them in MindSpore, and is imported when one is planted.
"""

from __future__ import annotations

from functools import partial

from mindport.config.model_config import ModelConfig
from mindport.debug.faults.fault import Fault

_fault = partial(Fault, code=True)
CONTEXT, NORM, HIDDEN = "blocks.0.attn.context", "blocks.0.norm1", "blocks.0.mlp.hidden"


def _rotary(config: ModelConfig) -> bool:
    return config.position == "rope"


def _grouped(config: ModelConfig) -> bool:
    return 1 < config.num_key_value_heads < config.num_attention_heads


def _last(config: ModelConfig) -> str:
    return f"blocks.{config.num_hidden_layers - 1}.norm1"


FAULTS = (
    _fault("no_mask", "no causal mask: every query sees every key", CONTEXT, ("mask_missing",)),
    _fault("mask_reversed", "the mask is reversed: a query sees itself and what follows", CONTEXT, ("mask_reversed",)),
    _fault("mask_zero", "hidden scores are filled with 0, not with -inf", CONTEXT, ("mask_zero",)),
    _fault("mask_late", "the mask is one key late: a query sees the token that it should foretell", CONTEXT,
           ("mask_shifted",)),
    _fault("mask_after", "the weights are masked after the softmax, and do not sum to 1", CONTEXT, ("mask_after",)),
    _fault("softmax_axis", "the softmax runs over the queries, not over the keys", CONTEXT, ("softmax_axis",)),
    _fault("scale_width", "the scores are divided by √hidden_size", CONTEXT, ("score_scale",)),
    _fault("scale_twice", "the scores are divided by √head_dim twice, in q and in the product", CONTEXT,
           ("score_scale",)),
    _fault("score_cap", "the scores are capped, as in another family", CONTEXT, ("score_cap",)),
    _fault("kv_tiled", "the key/value heads are tiled, not repeated", CONTEXT, ("kv_tiled",), applies=_grouped),
    _fault("heads_merged", "the heads are put together number by number, not one after the other", CONTEXT,
           ("heads_merged",)),
    _fault("rope_missing", "q and k are not rotated", CONTEXT, ("rope_missing",), applies=_rotary),
    _fault("rope_pairs", "neighbours turn together, not the halves of a head", CONTEXT, ("rope_pairs",),
           applies=_rotary),
    _fault("rope_backwards", "the sine has the wrong sign", CONTEXT, ("rope_backwards",), applies=_rotary),
    _fault("rope_late", "the keys' positions are one ahead of the queries'", CONTEXT, ("rope_positions",),
           applies=_rotary),
    _fault("rope_on_v", "v is rotated as well", CONTEXT, ("rope_on_v",), applies=_rotary),
    _fault("qk_norm_after", "q and k are normalised after the rotation", CONTEXT, ("qk_norm_after",),
           applies=lambda c: c.qk_norm),
    _fault("norm_kind", "RMS norm for layer norm, or the reverse", NORM, ("norm_kind",)),
    _fault("norm_variance", "the variance is divided by n - 1, not by n", NORM, ("norm_variance",),
           applies=lambda c: c.norm == "layer"),
    _fault("eps_outside", "the epsilon is added to the deviation, not to the variance", NORM, ("norm_eps_place",)),
    _fault("quick_gelu", "x σ(1.702 x) in the place of GELU", HIDDEN, ("activation",),
           applies=lambda c: c.hidden_act in ("gelu", "gelu_tanh")),
    _fault("gate_on_up", "the activation is on up, not on gate", HIDDEN, ("gate_on_up",),
           applies=lambda c: c.gated_mlp),
    _fault("bias_twice", "each of two ranks adds the bias", "blocks.0.attn.q", ("bias_twice",),
           applies=lambda c: c.qkv_bias),
    _fault("post_norm", "the norms stand after the sum, not before attention and MLP", "blocks.0", ("residual",)),
    _fault("no_residual", "attention's output takes the place of the residual stream", "blocks.0", ("residual",)),
    _fault("final_norm", "the last norm is left out", "norm", ("never_run",)),
    _fault("layer_skipped", "the last layer is left out", _last, ("never_run",)),
    _fault("run_backwards", "the layers run from last to first", "blocks.0", ("order_of_layers",)),
    _fault("positions_ahead", "positions are counted from 1", "position", ("positions_shifted",),
           applies=lambda c: c.position == "learned"),
    _fault("dropout", "dropout is on in evaluation", "blocks.0.attn", ("dropout",),
           applies=lambda c: c.resid_pdrop > 0),
    _fault("random_numbers", "a buffer that nobody fills is added: two runs differ", HIDDEN, ("not_repeatable",)),
)  # fmt: skip
