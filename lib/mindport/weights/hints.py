"""What a disagreement between names and table suggests: signs that people met, and their usual cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from mindport.config import ModelConfig
from mindport.config.dialect import Dialect
from mindport.weights.dtypes import QUANTISED
from mindport.weights.layouts import Shape

SIGNS = (  # (pattern in an unexpected name, what it suggests)
    (r"\.(SCB|absmax|quant_map|quant_state.*|qweight|qzeros|scales|g_idx|weight_scale(_inv)?)$", QUANTISED + "."),
    (r"lora_[AB]|lora_embedding|modules_to_save", "An adapter's tensors: merge it with peft's merge_and_unload first."),
    (r"\.(q_norm|k_norm)\.", "Norms on q and k: this looks like Qwen3, not the family that config.json names."),
    (r"\.(qkv_proj|gate_up_proj)\.", "Fused projections: this looks like Phi-3."),
    (r"\.experts\.|block_sparse_moe", "Experts: a mixture-of-experts model, which is not computed."),
    (r"attention\.query_key_value", "Fused query_key_value: this looks like GPT-NeoX, BLOOM or Falcon."),
    (
        r"^(base_model|_fsdp_wrapped_module|_forward_module|actor|policy|student)\.",
        "A wrapper's prefix ({0}.): save the inner model's state_dict.",
    ),
    (
        r"^(model\.)?(language_model|vision_tower|multi_modal_projector)\.",
        "A multimodal model: beside its own config.json, `mindport config` says how to take its text model out.",
    ),
    (r"^(score|classifier|v_head|value_head)\.", "Another head ({0}): save the language model alone."),
    (
        r"attention\.w[qkvo]\.|^tok_embeddings\.",
        "Meta's own names, where q and k turn neighbouring pairs: bring it into "
        "Hugging Face's layout with transformers' convert_llama_weights_to_hf.py first.",
    ),
    (
        r"^(layers\.\d+\.(self_attn|mlp)|embed_tokens)\.",
        'The inner model\'s names, without "model.": save the model together with its head.',
    ),
    (r"optimizer|exp_avg|\.m$", "A training checkpoint: save the model's weights alone."),
)
FIELDS = (  # (pattern in a name, the field of ModelConfig that decides whether it exists)
    (r"(q_proj|k_proj|v_proj|c_attn|query_key_value)\.bias$", "qkv_bias"),
    (r"(o_proj|attn\.c_proj|attention\.dense)\.bias$", "attention_out_bias"),
    (r"(gate_proj|up_proj|down_proj|c_fc|mlp\.c_proj|dense_h_to_4h|dense_4h_to_h)\.bias$", "mlp_bias"),
    (r"(lm_head|embed_out)\.weight$", "tie_word_embeddings"),
)


def hints(
    dialect: Dialect,
    config: ModelConfig,
    missing: Sequence[str],
    unexpected: Sequence[str],
    wrong: Mapping[str, tuple[Shape, Shape]],
) -> list[str]:
    """What to look at, most telling first; empty when nothing is recognised."""
    found = [*signs(unexpected), *_switches(dialect, config, [*missing, *unexpected])]
    found += [*_layers(config, missing, unexpected), *_vocabulary(dialect, config, wrong)]
    return list(dict.fromkeys(found))


def signs(unexpected: Sequence[str]) -> list[str]:
    """What single names give away."""
    firsts = (
        (text, next(filter(None, (re.search(pattern, name) for name in unexpected)), None)) for pattern, text in SIGNS
    )
    return [text.format(*found.groups()) for text, found in firsts if found]


def _switches(dialect: Dialect, config: ModelConfig, names: Sequence[str]) -> Iterable[str]:
    """Keys of config.json that say other than the tensors."""
    for pattern, field in FIELDS:
        if any(re.search(pattern, name) for name in names):
            key = next((row.key for row in dialect.fields if field in row.name.split()), None)
            said = str(getattr(config, field)).lower()
            by = f"config.json's {key}" if key else f"the family {dialect.model_type}"
            yield f"{by} says {field} = {said}, the tensors say otherwise: one of the two is wrong."


def _layers(config: ModelConfig, missing: Sequence[str], unexpected: Sequence[str]) -> Iterable[str]:
    count = config.num_hidden_layers
    above = [layer for layer in map(_layer, unexpected) if layer is not None and layer >= count]
    if above:
        yield f"The files hold layers up to {max(above)}, config.json says {count} layers (0 to {count - 1})."
    absent = {layer for layer in map(_layer, missing) if layer is not None}
    if absent and max(absent) == count - 1 and len(absent) < count and not unexpected:
        yield f"Layers {min(absent)} to {max(absent)} lack tensors: does num_hidden_layers = {count} hold?"


def _vocabulary(dialect: Dialect, config: ModelConfig, wrong: Mapping[str, tuple[Shape, Shape]]) -> Iterable[str]:
    known = config.vocab_rows, config.hidden_size
    rows = {name: got[0] for name, (got, right) in wrong.items() if right == known and got[1:] == right[1:]}
    if rows:
        said = "config.json's vocab_size" if config.padded_vocab is None else "--padded-vocab"
        found = ", ".join(f"{name} has {count} rows" for name, count in rows.items())
        yield f"{found}, {said} says {config.vocab_rows}: {_remedy(dialect, config, rows)}"
    for name, (got, right) in wrong.items():
        if len(right) == 2 and got == right[::-1] and got != right:
            yield f"{name} lies transposed: [in, out] where [out, in] belongs, or the reverse."


def _remedy(dialect: Dialect, config: ModelConfig, rows: Mapping[str, int]) -> str:
    """What to do about an embedding or a head (name → rows) that is not as long as it should be."""
    foreign = next(row.foreign for row in dialect.rows if row.hub == "embed.weight")
    count, both = max(rows.values()), config.tie_word_embeddings or len(rows) == 2
    if len(set(rows.values())) > 1 or not both or not any(name.endswith(foreign) for name in rows):
        return "embedding and head must have the same rows; resize both with resize_token_embeddings."
    if count < config.vocab_size:
        return "write the true vocab_size, or take the weights that belong to it."
    if count == config.vocab_size:
        return "they are not padded; leave out --padded-vocab."
    return f"if those beyond vocab_size are padding, declare it: --padded-vocab {count}; if tokens, write vocab_size."


def _layer(name: str) -> int | None:
    found = re.search(r"(?:^|\.)(\d+)\.", name)
    return int(found[1]) if found else None
