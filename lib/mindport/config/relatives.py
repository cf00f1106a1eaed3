"""Families that have no table: what each is most like, and what else the file says against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

RELATIVES: Mapping[str, tuple[str, str]] = {  # the beginning of a model_type → the nearest table, and what it lacks
    "bloom": ("gpt_neox", "ALiBi instead of rotary positions, a norm after the embedding"),
    "chatglm": ("llama", "rotary positions in neighbouring pairs, names of its own"),
    "cohere": ("llama", "attention and MLP side by side, scaled logits"),
    "deepseek": ("llama", "latent attention and experts"),
    "falcon": ("gpt_neox", "one norm or two, multi-query attention, no biases"),
    "gemma": ("gemma", "norms after attention and MLP, soft-capped logits"),
    "glm": ("llama", "rotary positions in neighbouring pairs"),
    "gpt_bigcode": ("gpt2", "one key/value head"),
    "gpt_neox_reward_model": ("gpt_neox", "a head for rewards"),
    "gpt_neo": ("gpt2", "local attention, unscaled scores"),
    "gptj": ("gpt_neox", "one norm before both halves, rotary positions in neighbouring pairs"),
    "granite": ("llama", "multipliers of embedding, attention, residual and logits"),
    "granitemoe": ("llama", "experts in place of its MLP, and multipliers"),
    "internlm": ("llama", "biases or a fused projection"),
    "lfm2": ("llama", "convolutions between the attention layers"),
    "mixformer-sequential": ("gpt_neox", "Phi before Phi-3: one norm before both halves"),
    "mixtral": ("mistral", "experts in place of its MLP"),
    "mpt": ("gpt2", "ALiBi instead of learned positions, no biases"),
    "olmo": ("llama", "other norms"),
    "opt": ("gpt2", "learned positions with an offset of 2, ReLU"),
    "phi": ("phi3", "layer norm, biases, and one norm before both halves"),
    "phimoe": ("phi3", "experts in place of its MLP"),
    "qwen2": ("qwen2", "another modality, or layers of another kind"),
    "qwen3": ("qwen3", "another modality, or layers of another kind"),
    "qwen2_moe": ("qwen2", "experts in place of its MLP"),
    "qwen3_moe": ("qwen3", "experts in place of its MLP"),
    "qwen": ("qwen2", "a fused c_attn, names of its own"),
    "stablelm": ("llama", "layer norm, partly rotated heads"),
    "starcoder2": ("gpt2", "rotary positions, grouped key/value heads"),
    "telechat": ("llama", "names of its own"),
    "baichuan": ("llama", "a fused W_pack"),
    "yi": ("llama", "names of its own; later releases are llama themselves"),
}  # fmt: skip


DECIDE = ("hidden_size", "num_hidden_layers", "tie_word_embeddings")  # what people looked for at the wrong level


def nearest(model_type: object, supported: Iterable[str]) -> str | None:
    """The supported family that is most like `model_type`, and what it lacks; None when nothing is like it."""
    if not isinstance(model_type, str):
        return None
    name, families = model_type.lower(), list(supported)
    known = max((start for start in RELATIVES if name.startswith(start)), key=len, default=None)
    if known:
        family, lack = RELATIVES[known]
        return f"{family}, whose table lacks: {lack}"
    return next(iter(get_close_matches(name, families, n=1, cutoff=0.5)), None)


def quantisation(settings: Any) -> str:
    """What kind of quantisation `quantization_config`, or MLX's `quantization`, describes."""
    if not isinstance(settings, Mapping):
        return "of a kind that is not said"
    method, bits = settings.get("quant_method"), settings.get("bits") or settings.get("w_bit")
    if method is None and ("load_in_4bit" in settings or "load_in_8bit" in settings):
        method = "bitsandbytes"
    if method == "bitsandbytes":
        bits = 4 if settings.get("load_in_4bit") else 8
    kind = str(method) if method is not None else "MLX" if "group_size" in settings else "a kind that is not said"
    return f"{kind}, {bits} bits" if bits is not None else kind


def inner(settings: Any) -> str:
    """The keys that a nested `text_config` holds; those that decide first."""
    keys = sorted(map(str, settings), key=lambda key: (key not in DECIDE, key)) if isinstance(settings, Mapping) else []
    return ", ".join(keys[:6]) + ", …" * (len(keys) > 6) if keys else "nothing"
