"""The YAML: only keys that the peer's strict sections know, the model's own numbers, and refusals before writing."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from mindport import cli
from mindport.config import Rope
from mindport.config.targets import TARGETS
from mindport.errors import ConfigError, FileError, UsageError
from mindport.mindformers import Layout, Recipe, export
from mindport.mindformers.graph import graph
from mindport.mindformers.networks import check_network, model_section
from mindport.mindformers.pynative import pynative
from mindport.weights import convert
from tests.config.test_targets import BIASED, LLAMA
from tests.weights.models import make

# mindformers 1.9.0, tools/register/template.py: sections that stop at any other key
GENERAL = """seed output_dir run_mode use_parallel resume_training print_separate_loss load_checkpoint load_ckpt_format
auto_trans_ckpt transform_process_num src_strategy_path_or_dir only_save_strategy load_ckpt_async use_legacy
use_legacy_format pretrained_model_dir balanced_load reshard_worker_num do_eval eval_step_interval eval_epoch_interval
ignore_data_skip data_skip_steps micro_batch_interleave_num""".split()
STRICT = {
    "parallel_config": "data_parallel model_parallel context_parallel expert_parallel pipeline_stage micro_batch_num "
    "seq_split_num use_seq_parallel optimizer_shard gradient_aggregation_group vocab_emb_dp context_parallel_algo "
    "ulysses_degree_in_cp mem_coeff",
    "recompute_config": "recompute select_recompute parallel_optimizer_comm_recompute select_comm_recompute "
    "mp_comm_recompute recompute_slice_activation select_recompute_exclude select_comm_recompute_exclude",
    "runner_config": "batch_size epochs sink_mode sink_size gradient_accumulation_steps num_classes stop_step",
}
LENIENT = {"trainer", "runner_wrapper", "optimizer", "lr_schedule", "callbacks", "context", "parallel", "model",
           "train_dataset", "train_dataset_task"}  # fmt: skip
# mindformers 2.0.0, pynative/config/config.py
PYNATIVE = {
    "checkpoint": "enable_save save_path save_max save_interleaved_steps no_save_optim async_save prefix "
    "remove_redundancy load_path load_balanced no_load_optim load_worker_number save_global_layout_cache",
    "training": "steps local_batch_size global_batch_size max_norm seed deterministic",
    "parallelism": "data_parallel_shard reshard_after_forward_policy tensor_parallel context_parallel "
    "context_parallel_method pipeline_parallel pipeline_parallel_microbatch_size pipeline_parallel_layers_per_stage "
    "sequence_parallel",
    "recompute": "mode full_recompute_layer select_module exclude_op",
    "context": "mode max_device_memory device_target",
}
FULL = Layout(2, 2, 1, 2, 2, True, "full", 3)
QWEN3 = dataclasses.replace(LLAMA, model_type="qwen3")
LEGACY, MCORE = TARGETS["mindformers-llama"], TARGETS["mindformers-mcore"]


@pytest.mark.parametrize(("config", "target"), [(LLAMA, LEGACY), (QWEN3, MCORE)])
def test_strict_sections_hold_known_keys_only(config: Any, target: Any) -> None:
    sections = graph(Path("/models/x"), config, target, FULL, Recipe())
    scalars = {key for key, value in sections.items() if not isinstance(value, (dict, list))}
    assert scalars <= set(GENERAL)
    assert set(sections) - scalars == set(STRICT) | LENIENT
    for name, keys in STRICT.items():
        assert set(sections[name]) <= set(keys.split())
    types = [sections[name]["type"] for name in ("trainer", "runner_wrapper", "optimizer", "lr_schedule")]
    assert types == ["CausalLanguageModelingTrainer", "MFTrainOneStepCell", "AdamW", "CosineWithWarmUpLR"]
    assert all("type" in callback for callback in sections["callbacks"])


def test_the_layout_is_in_the_graph_schema() -> None:
    deep = dataclasses.replace(LLAMA, num_hidden_layers=8)
    sections = graph(Path("/models/x"), deep, LEGACY, Layout(dp=4, tp=2, pp=3, micro_batches=5, zero=2), Recipe())
    degrees = sections["parallel_config"]
    assert (degrees["data_parallel"], degrees["model_parallel"], degrees["pipeline_stage"]) == (4, 2, 3)
    assert degrees["micro_batch_num"] == 5 and sections["use_parallel"] and sections["auto_trans_ckpt"]
    assert sections["runner_config"]["gradient_accumulation_steps"] == 1 and not degrees["vocab_emb_dp"]
    assert sections["parallel"]["parallel_optimizer_config"]["gradient_accumulation_shard"]
    assert sections["model"]["model_config"]["offset"] == [1, 1, 0]  # 3, 3 and 2 layers
    alone = graph(Path("/models/x"), LLAMA, LEGACY, Layout(), Recipe())
    assert not alone["use_parallel"] and not alone["parallel"]["enable_parallel_optimizer"]


@pytest.mark.parametrize(("config", "target", "columns"), [(LLAMA, LEGACY, 1), (QWEN3, MCORE, 4)])
def test_the_devices_share_each_column_of_the_data(config: Any, target: Any, columns: int) -> None:
    sections = graph(Path("/models/x"), config, target, Layout(dp=4), Recipe(data="/data/tokens", batch_size=2))
    assert sections["parallel"]["dataset_strategy"] == [[4, 1]] * columns
    assert len(sections["train_dataset"]["input_columns"]) == columns and not sections["parallel"]["full_batch"]
    assert sections["train_dataset"]["batch_size"] == 2 and "/data/tokens" in str(sections["train_dataset"])
    assert sections["train_dataset_task"]["dataset_config"] == sections["train_dataset"]


def test_the_legacy_network_is_told_everything() -> None:
    llama3 = Rope(rope_theta=5e5, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=32)  # fmt: skip
    config = dataclasses.replace(BIASED, rope=llama3, eos_token_id=(2, 3), tie_word_embeddings=True)
    section = model_section(config, LEGACY, 48)
    model = section["model_config"]
    assert section["arch"] == {"type": "LlamaForCausalLM"} and model["type"] == "LlamaConfig"
    sizes = {"seq_length": 48, "max_position_embedding": 64, "hidden_size": 24, "num_layers": 1, "num_heads": 4,
             "n_kv_heads": 2, "intermediate_size": 44, "vocab_size": 41}  # fmt: skip
    assert {key: model[key] for key in sizes} == sizes
    assert (model["qkv_has_bias"], model["attn_proj_has_bias"], model["tie_word_embeddings"]) == (True, False, True)
    assert (model["theta"], model["extend_method"], model["eos_token_id"]) == (5e5, "LLAMA3", 2)
    assert model["scaling_factor"] == {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                       "original_max_position_embeddings": 32}  # fmt: skip
    assert not model["qkv_concat"] and "bos_token_id" not in model
    assert model["pad_token_id"] == -1  # 0, the class's default, is a token that would be masked
    concat = model_section(config, TARGETS["mindformers-llama-concat"], 48)["model_config"]
    assert concat == {**model, "qkv_concat": True}


def test_the_mcore_network_is_told_the_order_of_rows() -> None:
    model = model_section(QWEN3, MCORE, 32)["model_config"]
    assert model["use_contiguous_weight_layout_attention"] is False and model["use_interleaved_weight_layout_mlp"]
    assert model["seq_length"] == 32 and "hidden_size" not in model  # config.json says it


def test_the_pynative_schema_holds_known_keys_only() -> None:
    raw = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 24, "torch_dtype": "float32",
           "transformers_version": "5", "rope_scaling": None}  # fmt: skip
    sections = pynative(Path("/models/x"), QWEN3, raw, FULL, Recipe(batch_size=3))
    for name, keys in PYNATIVE.items():
        assert set(sections[name]) <= set(keys.split())
    assert set(sections) - set(PYNATIVE) == {"optimizer", "lr_scheduler", "callbacks", "model", "train_dataset"}
    assert sections["training"]["global_batch_size"] == 18 and sections["recompute"] == {"mode": "full"}
    assert sections["model"]["architectures"] == "Qwen3ForCausalLM" and sections["model"]["hidden_size"] == 24
    assert not {"torch_dtype", "rope_scaling", "transformers_version"} & set(sections["model"])
    assert sections["parallelism"]["data_parallel_shard"] == 2 and sections["parallelism"]["tensor_parallel"] == 2


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    make(tmp_path / "hf", "llama", hidden_size=24, vocab_size=42)
    convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-llama", progress=False)
    return tmp_path / "mf"


def test_the_file_reads_back_as_it_was_meant(llama: Path, tmp_path: Path) -> None:
    report = export(llama, tmp_path / "x.yaml", layout="dp1,tp2,pp1", recipe=Recipe(seq_length=32))
    content = yaml.safe_load((tmp_path / "x.yaml").read_text())
    assert report.ok and content == report.sections and content["use_legacy"] is True
    assert content["pretrained_model_dir"] == content["load_checkpoint"] == str(llama.resolve())
    assert content["model"]["model_config"]["seq_length"] == 32
    assert isinstance(content["optimizer"]["eps"], float)  # 1e-8 without a dot would be text
    assert "names no data yet" in report.text() and "device(s)" in report.headline()
    given = export(llama, tmp_path / "y.yaml", recipe=Recipe(data="/data/tokens"))
    assert "names no data yet" not in given.text() and "/data/tokens" in (tmp_path / "y.yaml").read_text()


def test_refusals_write_nothing(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.yaml"
    convert(llama, tmp_path / "ours", to="mindspore", progress=False)
    convert(tmp_path / "hf", tmp_path / "mcore", to="mindformers-mcore", progress=False)
    make(tmp_path / "gpt2", "gpt2")
    convert(tmp_path / "gpt2", tmp_path / "gpt2-mf", to="mindformers-gpt2", progress=False)
    cases: list[tuple[Any, str, dict[str, Any]]] = [
        (ConfigError, "cannot be split", {"layout": "tp3"}),
        (ConfigError, "there is one", {"layout": "dp2,sp"}),
        (ConfigError, "there is one", {"layout": "tp2,zero1"}),
        (ConfigError, "64 tokens do not divide", {"layout": "cp3"}),
        (UsageError, "back to 1", {"layout": "mb4"}),
        (ConfigError, "no legacy networks", {"schema": "pynative"}),
        (UsageError, "no such schema", {"schema": "eager"}),
        (UsageError, "not a layout", {"layout": "x"}),
        (UsageError, "no YAML says this", {"layout": "dp2,zero3"}),
        (UsageError, "no such sequence length", {"recipe": Recipe(seq_length=65)}),
        (FileError, "our own names", {"directory": tmp_path / "ours"}),
        (FileError, "not a MindPort directory", {"directory": tmp_path / "hf"}),
        (ConfigError, "does not train this family", {"directory": tmp_path / "mcore"}),
        (ConfigError, "no GPT-2 any more", {"directory": tmp_path / "gpt2-mf"}),
    ]
    for error, words, changes in cases:
        with pytest.raises(error, match=words):
            export(**{"directory": llama, "yaml": out, **changes})
        assert not out.exists()


def test_a_ckpt_is_not_what_the_yaml_loads(tmp_path: Path) -> None:
    make(tmp_path / "hf", "llama", hidden_size=24)
    convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-llama", file_format="ckpt", progress=False)
    with pytest.raises(UsageError, match=r"loads safetensors(.|\n)*without --format ckpt"):
        export(tmp_path / "mf", tmp_path / "x.yaml")


def test_networks_that_train() -> None:
    check_network(LLAMA, LEGACY)
    check_network(QWEN3, MCORE)
    with pytest.raises(ConfigError, match="qwen2"):
        check_network(dataclasses.replace(LLAMA, model_type="qwen2"), MCORE)


def test_the_command_line(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.yaml"
    words = [
        "export",
        str(llama),
        "--yaml",
        str(out),
        "--layout",
        "dp1,tp2,pp1",
        "--recompute",
        "--seq-length",
        "16",
        "--data",
        "/data/x",
    ]
    assert cli.main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    degrees = {name: answer["layout"][name] for name in ("dp", "tp", "pp", "cp")}
    assert degrees == {"dp": 1, "tp": 2, "pp": 1, "cp": 1} and answer["sections"]["recompute_config"]["recompute"]
    assert yaml.safe_load(out.read_text())["model"]["model_config"]["seq_length"] == 16
    assert cli.main([*words[:4], "--layout", "tp5"]) == 2
    assert "cannot be split" in capsys.readouterr().err
    assert cli.main(["export", str(llama)]) == 2
