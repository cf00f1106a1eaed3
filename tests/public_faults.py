"""Faults that people reported in public, each run here on a tiny model: what the user sees, and which test holds it.

The page of it: `python -m tests.public_faults > docs/faults.md`. The numbers are those of our collection.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file

from mindport.config import schema
from mindport.config.read import inspect_config
from mindport.errors import MindPortError
from mindport.weights import convert
from tests.weights.models import GPT2, LLAMA, Tensors, save, tensors_of

COMMAND = "python -m tests.public_faults > docs/faults.md"
Raw = dict[str, Any]
Change = Callable[[Tensors], Tensors]
See = Callable[[Path], str]

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}  # fmt: skip
DENSE = {key: value for key, value in LLAMA.items() if key not in ("attention_bias", "mlp_bias")}
QWEN2 = {**DENSE, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 24}
QWEN3 = {**DENSE, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 8}
THETA = {"rope_theta": ...}
L0, H0 = "model.layers.0.self_attn.", "transformer.h.0.attn."


@dataclass(frozen=True)
class Fault:
    """One report.

    Attributes:
        number: in our collection.
        reports: where it was reported: owner/repository#issue.
        fault: what went wrong there.
        see: runs the right behaviour and tells what the user sees of it.
        says: what must stand in that.
        tests: what holds the values behind it, beside the run of this row.
    """

    number: int
    reports: str
    fault: str
    see: See
    says: tuple[str, ...]
    tests: tuple[str, ...] = ()


def _raw(base: Raw, changes: Raw) -> Raw:
    return {key: value for key, value in {**base, **changes}.items() if value is not ...}


def fields(base: Raw, *names: str, **changes: Any) -> See:
    """Values of fields with their sources, and the notes of the keys that were changed."""

    def see(home: Path) -> str:
        (home / "config.json").write_text(json.dumps(_raw(base, changes)))
        try:
            report = inspect_config(home)
        except MindPortError as error:
            return _stop(error)
        if not report.ok:
            return "stops: " + "; ".join(report.problems)
        rows = [f"{row.field} = {row.value} ({row.source}: {row.note})" for row in report.fields if row.field in names]
        notes = [f"{row.key}: {row.state}, {row.note}" for row in report.keys if row.key in changes and not names]
        return "; ".join([*rows, *notes])

    return see


def conversion(
    base: Raw,
    change: Change = lambda tensors: tensors,
    shards: int = 1,
    to: str = "mindspore",
    dtype: Any = "float32",
    padded_vocab: int | None = None,
    after: Callable[[Path], object] = lambda home: None,
    **changes: Any,
) -> See:
    """Figures and notes of a conversion and whether the way back gives the same bytes, or what stops it."""

    def see(home: Path) -> str:
        raw = _raw(base, changes)
        source = save(home / "hf", raw, change(tensors_of(raw, home / "hf", dtype)), shards)
        after(source)
        try:
            report = convert(source, home / "ms", to=to, padded_vocab=padded_vocab, progress=False)
        except MindPortError as error:
            return _stop(error)
        convert(home / "ms", home / "back", to="huggingface", progress=False)
        a, held = (
            report.accounting,
            _held(source, home / "back", {fate.tensor for fate in report.fates if fate.fate == "dropped"}),
        )
        return "; ".join([f"{a.converted} converted, {a.tied} tied, {a.dropped} dropped; back {held}", *report.notes])

    return see


def _stop(error: MindPortError) -> str:
    """What a refusal says, without the program that it may print."""
    parts = (error.what, error.got, error.do and error.do.split("\n")[0].rstrip(":"))
    return "stops: " + " — ".join(str(part) for part in parts if part)


def _held(source: Path, back: Path, dropped: set[str]) -> str:
    files = sorted(source.glob("*.safetensors*"))
    if all((back / file.name).read_bytes() == file.read_bytes() for file in files):
        return "byte for byte"
    before, after = ({n: x.tobytes() for n, x in load_file(d / "model.safetensors").items()} for d in (source, back))
    kept = {name: x for name, x in before.items() if name not in dropped}
    return "tensor for tensor, without what was dropped" if dropped and kept == after else "DIFFERENT"


def shapes(base: Raw, *names: str, **changes: Any) -> See:
    """Shapes of parameters."""

    def see(home: Path) -> str:
        (home / "config.json").write_text(json.dumps(_raw(base, changes)))
        model = inspect_config(home).model
        assert model is not None
        return ", ".join(f"{name} {list(schema.shapes(model)[name])}" for name in names)

    return see


def folders(home: Path) -> str:
    """The three wrong folders."""
    said = []
    for name, file in (("empty", None), ("elsewhere", "notes.txt"), ("gguf", "model.gguf")):
        (home / name).mkdir()
        if file:
            (home / name / file).touch()
        try:
            inspect_config(home / name)
        except MindPortError as error:
            said.append(f"{error.what}: {error.do}")
    return "stops: " + " / ".join(said)


def without(*names: str) -> Change:
    return lambda tensors: {name: x for name, x in tensors.items() if name not in names}


def plus(name: str, like: str, scale: float = 1) -> Change:
    return lambda tensors: tensors | {name: tensors[like] * scale}


def renamed(old: str, new: str) -> Change:
    return lambda tensors: {re.sub(old, new, name): x for name, x in tensors.items()}


def _padded(tensors: Tensors) -> Tensors:
    return tensors | {name: np.concatenate([tensors[name], tensors[name][:23]]) for name in (EMBED, HEAD)}


def _buffers(tensors: Tensors) -> Tensors:
    return tensors | {H0 + "bias": np.ones((1, 1, 19, 19), np.uint8), H0 + "masked_bias": np.array(-1e4, np.float32)}


HEAD, EMBED = "lm_head.weight", "model.embed_tokens.weight"
READ, PLAN, CONVERT = "tests/config/test_read.py::", "tests/weights/test_plan.py::", "tests/weights/test_converter.py::"
GPT, ROPE, FAMILY = "tests/model/test_gpt.py::", "tests/config/test_rope.py::", "tests/config/test_families.py::"
BAD_KEY, BAD_TENSORS = READ + "test_a_bad_key_stops_and_says_why", PLAN + "test_a_fault_is_refused_with_its_reason"
LOGITS, ANGLES = GPT + "test_logits_equal_transformers", "tests/model/test_rope.py::test_equal_to_transformers"
MULTIMODAL, UPCAST = "tests/config/test_multimodal.py::", "tests/model/test_upcast.py::"
VOCABULARY, PADDED = "tests/config/test_vocabulary.py::", "tests/weights/test_padded_vocab.py::"
WRONG = GPT + "test_a_wrong_setting_is_seen"
BACK = "tests/weights/test_transformers.py::test_every_family_comes_back_identical_and_computes_the_same"

FAULTS = (
    Fault(1, "pytorch/torchtitan#919, NVIDIA/TensorRT-LLM#2677", "a tied model without lm_head: KeyError",
          conversion(LLAMA, tie_word_embeddings=True), ("29 converted", "byte for byte"), (LOGITS,)),
    Fault(2, "ml-explore/mlx-lm#1298", "tied, and lm_head is there as well",
          conversion(LLAMA, plus(HEAD, EMBED), tie_word_embeddings=True), ("1 tied", "equal byte for byte"),
          (CONVERT + "test_a_tied_duplicate_is_dropped_and_restored",
           CONVERT + "test_a_tied_head_that_differs_in_one_bit_is_refused")),
    Fault(4, "vllm-project/vllm#53020", "a tied head stays random, without an error",
          fields(LLAMA, "tie_word_embeddings", tie_word_embeddings=True), ("True (explicit",),
          ("tests/model/test_load.py::test_a_loaded_model_equals_transformers",
           "tests/model/test_load.py::test_missing_and_foreign_weights_stop",
           GPT + "test_parameters_are_the_schema")),
    Fault(5, "QwenLM/Qwen3-VL-Embedding#89", "not tied, and no lm_head", conversion(LLAMA, without(HEAD)),
          ("stops", "1 missing: lm_head.weight", "tie_word_embeddings"), (BAD_TENSORS,)),
    Fault(6, "huggingface/transformers#43429", "tied in text_config only: read as not tied",
          fields({}, model_type="llava", text_config={"model_type": "llama", "tie_word_embeddings": True}),
          ("stops", "text model 'llama'", "tie_word_embeddings", "save it by itself"),
          (READ + "test_a_multimodal_file_is_called_so_whether_or_not_it_names_its_family",
           MULTIMODAL + "test_the_steps_that_the_refusal_prints_lead_across",
           MULTIMODAL + "test_the_step_about_the_head_is_needed")),
    Fault(8, "NVIDIA-NeMo/Megatron-Bridge#1853, epfLLM/Megatron-LLM#50, NVIDIA/Megatron-LM#1491",
          "more rows in the embedding than config.json says", conversion(LLAMA, _padded),
          ("stops", "64 rows", "--padded-vocab 64"),
          (VOCABULARY + "test_embedding_rows_decide", PADDED + "test_what_is_not_declared_or_not_so_is_refused")),
    Fault(9, "Lightning-AI/litgpt#68", "padding that differs from size to size: declared, both sizes are kept",
          conversion(LLAMA, _padded, padded_vocab=64), ("30 converted", "byte for byte", "41 tokens in 64 rows"),
          (PADDED + "test_there_and_back", PADDED + "test_mindspore_transformers_is_told_all_rows",
           "tests/parity/test_padded_vocab.py::test_it_is_right_on_every_row_and_comes_back_byte_for_byte",
           VOCABULARY + "test_a_smaller_tokenizer_is_padding_and_a_larger_one_a_fault")),
    Fault(11, "meta-llama/llama3#299, hiyouga/LLaMA-Factory#4962, foundation-model-stack/foundation-model-stack#384",
          "Llama 3.1's rope_scaling taken for a fault", fields(LLAMA, "rope", rope_scaling=LLAMA3),
          ("llama3: ", "low_freq_factor 1"), (ANGLES, ROPE + "test_same_reading_as_transformers")),
    Fault(12, "transformerlab/transformerlab-app#152", "one spelling of the rope type understood, not the other",
          fields(LLAMA, rope_scaling={"type": "linear", "rope_type": "dynamic", "factor": 2.0}),
          ("stops", "one value of rope_type"),
          (ROPE + "test_old_and_new_spelling_agree", ROPE + "test_both_names_of_the_type_may_stand_if_they_agree")),
    Fault(13, "sbryngelson/ANEForge#58, ggml-org/llama.cpp#8676, lablup/mlxcel#1355", "scaling read and never applied",
          fields(LLAMA, "rope", rope_scaling={"rope_type": "linear", "factor": 4.0}),
          ("linear: ", "factor 4"),
          (WRONG, LOGITS, "tests/model/test_rope.py::test_each_kind_differs_from_the_default")),
    Fault(14, "deepspeedai/DeepSpeed#8340, deepspeedai/DeepSpeed#8345", "rope_theta in rope_parameters not seen",
          fields(LLAMA, "rope", rope_parameters={"rope_type": "default", "rope_theta": 1e6}, **THETA),
          ("rope_theta 1e+06", "explicit"), (ROPE + "test_new_spelling_without_top_level_theta_keeps_its_theta",)),
    Fault(16, "sgl-project/sglang#26187", "yarn dropped after a key changed its name",
          fields(LLAMA, "rope", rope_parameters={"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}, **THETA),
          ("yarn: ", "factor 4"), (WRONG, ANGLES)),
    Fault(20, "ggml-org/llama.cpp#2376, huggingface/transformers#31766", "Meta's k permuted with the number of q heads",
          conversion(LLAMA, renamed(r"^model\.layers\.(\d)\.self_attn\.(.)_proj", r"layers.\1.attention.w\2")),
          ("stops", "Meta's own names"), (BAD_TENSORS, GPT + "test_swapped_key_heads_are_seen")),
    Fault(21, "meta-pytorch/gpt-fast#190, huggingface/transformers#25199, karpathy/llama2.c#286",
          "rotary pairs side by side or by halves", fields(LLAMA, rope_interleaved=True),
          ("stops", "halves of a head turn together"),
          (BAD_KEY, GPT + "test_swapped_key_heads_are_seen", LOGITS)),
    Fault(22, "huggingface/candle#2358, ml-explore/mlx-examples#895", "head_dim that is not hidden_size / heads",
          shapes(LLAMA, "blocks.0.attn.o.weight", hidden_size=40, head_dim=8), ("[40, 32]",),
          (READ + "test_head_dim_may_differ_from_hidden_over_heads", LOGITS)),
    Fault(23, "paiml/entrenar#262", "the same in Qwen3",
          shapes(QWEN3, "blocks.0.attn.q.weight"), ("[32, 20]",), (BACK,)),
    Fault(24, "mlc-ai/mlc-llm#1027", "num_key_value_heads null",
          fields(LLAMA, "num_key_value_heads", num_key_value_heads=None), ("= 4 (derived",),
          (READ + "test_null_and_missing_kv_heads_mean_all_heads",)),
    Fault(25, "huggingface/transformers#48643", "7 heads on 2 key/value heads accepted",
          fields(LLAMA, num_attention_heads=7), ("stops", "7 heads, 2 kv heads"),
          (READ + "test_a_broken_constraint_stops",)),
    Fault(27, "sbryngelson/ANEForge#253, EricLBuehler/candle-vllm#167", "Qwen2's biases, which no key names, dropped",
          conversion(QWEN2, without(L0 + "q_proj.bias")), ("stops", "1 missing", "q_proj.bias"),
          (FAMILY + "test_qwen2_has_biases_that_no_key_names", BACK)),
    Fault(28, "huggingface/transformers#29553, sgl-project/sglang-jax#578",
          "attention_bias ignored, or o_proj forgotten",
          shapes(LLAMA, "blocks.0.attn.q.bias", "blocks.0.attn.o.bias", attention_bias=True), ("[24]", "[20]"),
          (READ + "test_attention_bias_is_one_key_for_two_fields", LOGITS)),
    Fault(29, "TransformerLensOrg/TransformerLens#937, OpenNMT/CTranslate2#1902", "norms on q and k left out",
          conversion(QWEN3, without(L0 + "q_norm.weight")), ("stops", "1 missing", "q_norm.weight"), (BACK, LOGITS)),
    Fault(31, "karpathy/nanoGPT#2, OpenNMT/CTranslate2#1658, Lightning-AI/litgpt#1004", "GELU's two forms mixed up",
          fields(GPT2, activation_function="gelu_10"), ("stops", "one of gelu, gelu_new"), (BAD_KEY, WRONG)),
    Fault(32, "huggingface/transformers#44380, vllm-project/vllm#36637", "scores not scaled by the layer",
          fields(GPT2, "scale_attn_by_inverse_layer_idx", scale_attn_by_inverse_layer_idx=True), ("True (explicit",),
          (WRONG, LOGITS)),
    Fault(33, "huggingface/transformers#13573", "reorder_and_upcast_attn passed over below float32",
          fields(GPT2, "upcast_attention", reorder_and_upcast_attn=True), ("True (explicit",),
          (UPCAST + "test_the_key_is_read_and_does_nothing_in_float32",
           UPCAST + "test_our_scores_are_not_rounded_and_would_be")),
    Fault(34, "huggingface/transformers#29725, huggingface/transformers#24581, huggingface/transformers#4356",
          "GPT-2's buffers: not tensors of the model", conversion(GPT2, _buffers),
          ("2 dropped", "left behind", "tensor for tensor"),
          (PLAN + "test_named_buffers_are_dropped_and_only_within_the_layers",
           CONVERT + "test_buffers_are_left_behind_and_reported")),
    Fault(35, "karpathy/minGPT#122, PaddlePaddle/PaddleNLP#7341", "Conv1D not transposed; a square one shows no shape",
          conversion(GPT2), ("40 converted", "byte for byte"),
          (CONVERT + "test_a_gpt2_goes_over_by_value",
           "tests/weights/test_layouts.py::test_a_conv1d_computes_what_the_linear_map_computes")),
    Fault(36, "Lightning-AI/lit-llama#339, meta-pytorch/torchtune#152", "epsilon written into the code",
          fields(LLAMA, "norm_eps", rms_norm_eps=1e-6), ("1e-06 (explicit",),
          (GPT + "test_a_wrong_epsilon_is_seen_where_activations_are_small",)),
    Fault(38, "huggingface/transformers#35896, huggingface/transformers#40126", "windows in the wrong layers",
          fields(QWEN2, "window", use_sliding_window=True, sliding_window=8, max_window_layers=1), ("(None, 8, 8)",),
          (FAMILY + "test_the_window_of_each_layer_is_the_references", WRONG)),
    Fault(40, "huggingface/transformers#36683, vllm-project/vllm#14687, NVIDIA/Model-Optimizer#2040",
          "values a level deeper: AttributeError",
          fields({}, model_type="mistral3",
                 text_config={"model_type": "mistral", "hidden_size": 20, "num_hidden_layers": 3}),
          ("stops", "multimodal", "hidden_size, num_hidden_layers", "of the supported family mistral"),
          (MULTIMODAL + "test_a_supported_text_model_is_named",
           MULTIMODAL + "test_the_steps_that_the_refusal_prints_lead_across")),
    Fault(41, "huggingface/transformers#39782, unslothai/unsloth#3352, sgl-project/mini-sglang#36",
          "torch_dtype renamed to dtype", fields(LLAMA, "dtype", torch_dtype="torch.bfloat16"),
          ("bfloat16 (explicit",), (BAD_KEY,)),
    Fault(42, "sgl-project/sglang#32279", "a missing shard passed over",
          conversion(LLAMA, shards=2, after=lambda hf: (hf / "model-00002-of-00002.safetensors").unlink()),
          ("stops", "1 of 2 shards are missing", "model-00002-of-00002"),
          ("tests/weights/test_readers.py::test_a_broken_directory_is_refused_and_nothing_is_written",)),
    Fault(45, "JustVugg/colibri#1487", "the wrong folder, said in general terms only", folders,
          ("stops", "empty", "no config.json", "GGUF"), (READ + "test_three_kinds_of_wrong_folder",)),
    Fault(47, "NVIDIA/TransformerEngine#730", "a layer's q, k, v in two shards, fused as they came",
          conversion(QWEN2, shards=2, to="mindformers-mcore"), ("39 converted", "byte for byte"),
          ("tests/weights/test_targets.py::test_there_and_back_is_byte_for_byte",)),
    Fault(48, "huggingface/safetensors#598, pytorch/pytorch#90574, apple/axlearn#271", "bfloat16 unknown to NumPy",
          conversion(LLAMA, dtype=ml_dtypes.bfloat16, torch_dtype="bfloat16"), ("30 converted", "byte for byte"),
          ("tests/weights/test_dtypes.py::test_widening_changes_nothing",
           "tests/model/test_load.py::test_half_precision_files_are_widened_exactly")),
    Fault(52, "alibaba/Pai-Megatron-Patch#644, NVIDIA/TensorRT-LLM#2819, NVIDIA/TensorRT-LLM#1528",
          "quantization_config removed, the weights still quantised",
          conversion(LLAMA, plus(L0 + "q_proj.weight_scale_inv", "model.norm.weight")), ("stops", "dequantise"),
          (BAD_KEY, BAD_TENSORS, CONVERT + "test_other_precisions_are_refused")),
)  # fmt: skip


def seen(fault: Fault) -> str:
    """What the user sees, run now; places of this machine are left out."""
    with tempfile.TemporaryDirectory() as home:
        place = str(Path(home).resolve())
        return fault.see(Path(place)).replace(place, "DIR")


def page() -> str:
    """The page, as Markdown."""
    lines = [
        "# Faults that people met\n",
        f"Written by `{COMMAND}`, which runs every row; a test holds the page to it. Each row stands for a kind of "
        "fault reported in public (`owner/repository#number` on GitHub); `tests/test_public_faults.py` holds what the "
        "user sees, the tests named hold the values behind it.\n",
        "| no. | reported | fault | what you see here | held by |",
        "| --- | --- | --- | --- | --- |",
    ]
    for fault in FAULTS:
        tests = "<br>".join(f"`{test}`" for test in fault.tests) or "–"
        cells = (str(fault.number), fault.reports, fault.fault, seen(fault).replace("|", "\\|"), tests)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
