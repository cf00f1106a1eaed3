"""Keys that mean the same in every family."""

from __future__ import annotations

from mindport.config.dialect import Field, Refusal
from mindport.config.readers import dtype, padding_id, positive_float, token_id, token_ids
from mindport.config.relatives import inner, quantisation

TOKENS = (
    Field("bos_token_id", "bos_token_id", token_id, None),
    Field("eos_token_id", "eos_token_id", token_ids, None),
    Field("pad_token_id", "pad_token_id", padding_id, None),
)
DTYPE = Field("dtype", "dtype", dtype, None)  # `torch_dtype` before transformers 5; the reader joins the two
INIT = Field("initializer_range", "initializer_range", positive_float, 0.02)

REFUSED = (
    Refusal("is_decoder", (False, None), "this switch is for cross-attention models; a GPT is causal by itself"),
    Refusal("add_cross_attention", (False, None), "cross-attention is not computed"),
    Refusal("is_encoder_decoder", (False, None), "encoder–decoder models are not computed"),
    Refusal("quantization_config quantization", (None,), "the weights are quantised, and stay so when the key is "
            "removed: dequantise them first", quantisation),
    Refusal("auto_map", (None,), "the model brings code of its own, which is never executed"),
    Refusal("text_config", (None,), "a multimodal model: the values are in text_config; save its language model alone, "
            "with that as its config.json", inner),
    Refusal("num_local_experts num_experts n_routed_experts n_shared_experts moe_num_experts num_experts_per_tok "
            "moe_intermediate_size moe_layer_freq", (None, 0, False), "mixture-of-experts layers are not computed"),
)  # fmt: skip
_GENERATION = "a default for generation"
HARMLESS = {
    "architectures": "checked against the family's class",
    "_name_or_path": "where the file came from",
    "transformers_version": "who wrote the file",
    "use_cache": "a cache changes speed, not values",
    "return_dict": "form of the reference's output",
    "output_attentions": "form of the reference's output",
    "output_hidden_states": "form of the reference's output",
    "_attn_implementation": "which kernel the reference takes",
    "_attn_implementation_autoset": "which kernel the reference takes",
    "gradient_checkpointing": "memory in training, not values",
    "torchscript": "an export switch of the reference",
    "max_length": _GENERATION,
    "do_sample": _GENERATION,
    "temperature": _GENERATION,
    "top_k": _GENERATION,
    "top_p": _GENERATION,
    "task_specific_params": _GENERATION,
    "unk_token_id": "used by the tokenizer only",
    "sep_token_id": "used by the tokenizer only",
    "id2label": "classification heads only",
    "label2id": "classification heads only",
    "problem_type": "classification heads only",
    "chunk_size_feed_forward": "memory in inference, not values",
    "transformers.js_config": "for another runtime",
}
