"""Runs in the peer's own environment: loads a YAML with MindSpore Transformers' loader, builds its network, compares.

    python probe.py CASES.json ANSWERS.json

Nothing of MindPort is imported: what is compared are files. Each case ends in an answer or in the peer's own error.
"""

from __future__ import annotations

import json
import sys
import traceback
from importlib.metadata import version
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

CPU = {  # what the legacy network needs to run without an accelerator
    "compute_dtype": "float32", "param_init_type": "float32", "use_flash_attention": False, "fused_rms_norm": False,
    "use_rope_slice": True,
}  # fmt: skip


def on_this_machine(config, mode):
    """The configuration, once it is read, for one process and no accelerator; mode 0 is graph, 1 PyNative."""
    config.use_parallel = False
    config.parallel_config.model_parallel = 1
    config.context.device_target, config.context.mode = "CPU", mode
    config.context.pop("max_device_memory", None)
    return config


def legacy(case):
    """Names, shapes, a strict load, and logits of the network that the YAML describes."""
    import mindspore as ms
    from mindformers import MindFormerConfig, build_context
    from mindformers.models.build_model import build_network

    config = on_this_machine(MindFormerConfig(case["yaml"]), mode=1)
    build_context(config)
    config.model.model_config.update(CPU)
    ids = np.load(case["ids"])  # (B, T)
    config.model.model_config.update({"seq_length": ids.shape[1], "batch_size": ids.shape[0]})
    network = build_network(config.model)
    answer = compare(network, load_file(case["weights"]))
    left = ms.load_param_into_net(network, ms.load_checkpoint(case["weights"], format="safetensors"), strict_load=True)
    answer["not loaded"] = [list(map(str, names)) for names in left]
    network.set_train(False)
    logits = network(ms.Tensor(ids, ms.int32))
    logits = (logits[0] if isinstance(logits, tuple) else logits).asnumpy().reshape(*ids.shape, -1)
    reference, exact = np.load(case["logits"]), np.load(case["exact"])  # transformers in float32, in float64
    answer["max abs error of logits"] = float(np.abs(logits - reference).max())
    answer["largest logit"] = float(np.abs(reference).max())
    answer["error against float64"] = float(np.abs(logits - exact).max())
    answer["transformers' own error against float64"] = float(np.abs(reference - exact).max())
    return answer | ({"control": True} if case.get("control") else {})


def mcore(case):
    """Names and shapes of the training network; values against the peer's own converter."""
    import mindspore as ms
    from mindformers import MindFormerConfig, build_context
    from mindformers.models.build_config import get_model_config
    from mindformers.parallel_core.training_graph.base_models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from mindformers.parallel_core.training_graph.base_models.gpt.gpt_model import GPTModel

    config = on_this_machine(MindFormerConfig(case["yaml"]), mode=0)
    build_context(config)
    config.model.pretrained_model_dir = config.pretrained_model_dir
    model = get_model_config(config.model)
    c = model.convert_to_transformer_config()
    network = GPTModel(
        config=c,
        transformer_layer_spec=get_gpt_layer_local_spec(
            qk_layernorm=case["qk_norm"], use_interleaved_weight_layout_mlp=c.use_interleaved_weight_layout_mlp,
            use_contiguous_weight_layout_attention=c.use_contiguous_weight_layout_attention,
        ),
        vocab_size=c.vocab_size, max_sequence_length=c.max_position_embeddings,
        position_embedding_type=c.position_embedding_type, rotary_base=model.rope_theta,
        share_embeddings_and_output_weights=model.tie_word_embeddings, post_process=c.post_process,
    )  # fmt: skip
    ours = load_file(case["weights"])
    answer = compare(network, ours)
    left = ms.load_param_into_net(network, ms.load_checkpoint(case["weights"], format="safetensors"), strict_load=True)
    answer["not loaded"] = [list(map(str, names)) for names in left]
    answer["forward on this CPU"] = forward(network, c.seq_length)
    return answer | fused(ours, load_file(case["huggingface"]), c)


def layout(case):
    """What the peer makes of a layout: the stage of each layer, what is recomputed, samples of a step."""
    from mindformers import MindFormerConfig, build_context, build_parallel_config
    from mindformers.models.build_config import get_model_config
    from mindformers.parallel_core.training_graph.transformer.utils import LayerSetting

    config = MindFormerConfig(case["yaml"])
    checked = MindFormerConfig(case["yaml"])
    build_parallel_config(checked)
    if config.use_legacy:
        model = config.model.model_config
        setting = LayerSetting(model.num_layers, model.get("offset", 0), checked.parallel_config)
    else:
        build_context(on_this_machine(config, mode=0))
        config.model.pretrained_model_dir = config.pretrained_model_dir
        config.model.model_config.parallel_config = checked.parallel_config  # as its trainer passes it on
        found = get_model_config(config.model).convert_to_transformer_config()
        setting = LayerSetting(found.num_layers, found.offset, found)
    found = {"stages": [int(n) for n in setting.pp_ids], "samples of a step": samples(case["yaml"]),
             "recomputed": recomputed(setting)}  # fmt: skip
    return {"layout": found, "different": sorted(key for key in found if found[key] != case["wanted"][key])}


def recomputed(setting):
    chosen = setting.select_recompute
    return sorted(chosen) if any(sum(map(sum, layers)) for layers in chosen.values()) else []


def samples(file):
    """The peer's own arithmetic of the batch, with the mode that the YAML asks for in place of a cluster's."""
    from types import SimpleNamespace
    from unittest import mock

    from mindformers import MindFormerConfig
    from mindformers.trainer import base_trainer

    config = MindFormerConfig(file)
    told = {"parallel_mode": "semi_auto_parallel", "full_batch": config.parallel.full_batch,
            "dataset_strategy": config.parallel.dataset_strategy}  # fmt: skip
    trainer = SimpleNamespace(config=config, get_pipeline_stages=lambda: config.parallel_config.pipeline_stage,
                              _reset_wrapper_for_pipeline_parallel=lambda: None)  # fmt: skip
    config.micro_batch_interleave_num = 1
    with mock.patch.object(base_trainer.ms, "get_auto_parallel_context", told.get):
        base_trainer.BaseTrainer._check_global_batch_size_for_auto_parallel(trainer)
    return trainer.global_batch_size


def forward(network, seq_length):
    """What comes of running it: the peer's mcore operators are made for Ascend."""
    import mindspore as ms

    ids = ms.Tensor(np.ones((1, seq_length)), ms.int32)
    try:
        network.set_train(False)
        return f"runs: {network(ids, position_ids=ids, labels=ids, loss_mask=ids)}"
    except Exception as error:  # whatever the peer raises is the answer
        words = [line.strip() for line in str(error).splitlines() if any(map(str.isalpha, line))]
        found = next((line for line in words if "nsupported op" in line), f"{type(error).__name__}: {words[0]}")
        return found.partition(", ")[0]


def fused(ours, source, c):
    """Fused projections as the peer's own converter makes them; its op for biases is 2-D, so they are flattened."""
    from mindformers.parallel_core.utils.model_mixin import TrainModelMixin

    mixin, layer, equal, different = TrainModelMixin(), 0, 0, []
    while f"decoder.layers.{layer}.mlp.linear_fc1.weight" in ours:
        a, m = f"model.layers.{layer}.self_attn.", f"model.layers.{layer}.mlp."
        theirs = {}
        for what in ("weight", "bias"):
            if f"{a}q_proj.{what}" in source:
                parts = [source[f"{a}{x}_proj.{what}"] for x in "qkv"]
                name = f"decoder.layers.{layer}.self_attention.linear_q.{what}"
                theirs |= mixin.concat_qkv_interleaved(
                    *parts, name, c.kv_channels, c.num_query_groups, c.num_attention_heads
                )
        gate, up = source[f"{m}gate_proj.weight"], source[f"{m}up_proj.weight"]
        name = f"decoder.layers.{layer}.mlp.gating.weight"
        theirs |= mixin.concat_linear_fc1_interleaved(gate, up, name, c.ffn_hidden_size)
        for name, x in theirs.items():
            same = np.array_equal(ours[name], x.reshape(ours[name].shape))
            equal, different = equal + same, different + [name] * (not same)
        layer += 1
    return {"fused tensors equal to the peer's converter": int(equal), "different": different}


def compare(network, ours):
    """Names and shapes, both ways; constants that are no weights are listed apart."""
    theirs = {p.name: tuple(p.shape) for p in network.get_parameters()}
    theirs = {name.removeprefix("model.") if name not in ours else name: shape for name, shape in theirs.items()}
    return {
        "tensors": len(ours),
        "parameters of the network": len(theirs),
        "only ours": sorted(set(ours) - set(theirs)),
        "only theirs": sorted(set(theirs) - set(ours)),
        "of another shape": [n for n in theirs if n in ours and theirs[n] != ours[n].shape],
    }


def pynative(case):
    """The strict loader of the PyNative schema, out of a wheel's own source: the package itself cannot be imported."""
    import importlib.util

    folder = Path(case["source"]) / "mindformers/pynative/config"
    spec = importlib.util.spec_from_file_location("peer_config", folder / "__init__.py",
                                                  submodule_search_locations=[str(folder)])  # fmt: skip
    module = importlib.util.module_from_spec(spec)
    sys.modules["peer_config"] = module
    spec.loader.exec_module(module)
    config = module.TrainConfig.load_from_yaml(case["yaml"])
    known = set(module.TrainConfig.__dataclass_fields__)
    return {"sections": len(known & set(config.to_dict())), "unknown sections": sorted(set(config.to_dict()) - known)}


def refuses(case):
    """A spoiled YAML must stop the peer: the check can turn red."""
    from mindformers import MindFormerConfig

    try:
        layout(case) if "wanted" in case else MindFormerConfig(case["yaml"])
    except (KeyError, ValueError) as error:
        return {"refused": str(error).partition(". ")[0]}
    raise AssertionError("the peer took a spoiled YAML")


KINDS = {"legacy": legacy, "mcore": mcore, "pynative": pynative, "refuses": refuses, "layout": layout,
         "mcore layout": layout}  # fmt: skip


def main(cases_file, answers_file):
    cases = json.loads(Path(cases_file).read_text())
    answers = {}
    for name, case in cases.items():
        try:
            answers[name] = KINDS[case["kind"]](case)
        except Exception as error:  # the peer's own failure is an answer
            traceback.print_exc()
            answers[name] = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    versions = {name: version(name) for name in ("mindspore", "mindformers", "transformers", "numpy")}
    Path(answers_file).write_text(json.dumps({"versions": versions, "cases": answers}, indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
