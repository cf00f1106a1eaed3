"""A layout goes into a YAML and comes back; the numbers keep the documented rules; what no YAML says is refused."""

from __future__ import annotations

import dataclasses
from itertools import product
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mindport.config.targets import TARGETS
from mindport.errors import ConfigError, UsageError
from mindport.mindformers import Layout, Recipe
from mindport.mindformers.export import as_text, content
from mindport.mindformers.pynative import pynative
from mindport.mindformers.rules import RULES, Asked
from mindport.mindformers.settings import layout_of, settings, unsaid
from mindport.mindformers.stages import split, stage_of
from tests.config.test_targets import LLAMA

MODEL = dataclasses.replace(LLAMA, model_type="qwen3", num_hidden_layers=7, num_attention_heads=8,
                            num_key_value_heads=4, intermediate_size=48, vocab_size=88)  # fmt: skip
MCORE, LEGACY = TARGETS["mindformers-mcore"], TARGETS["mindformers-llama"]
DIRECTORY = Path("/models/x")


def legal(schema: str) -> list[Layout]:
    """Every layout of up to 4 · 4 · 4 · 4 devices that breaks no rule, and that the schema can say."""
    asked, degrees = Asked(MODEL, MODEL.max_position_embeddings), (1, 2, 3, 4)
    rest = (range(4), (False, True), ("none", "selective", "full"), (1, 3, 8))
    every = (Layout(*values) for values in product(degrees, degrees, degrees, (1, 2, 4), *rest))
    return [it for it in every if not unsaid(it, schema) and not any(rule.broken(asked, it) for rule in RULES)]


@examples(max_examples=80, deadline=None)
@given(st.sampled_from(legal("graph")), st.integers(1, 5), st.sampled_from([MCORE, LEGACY]))
def test_the_graph_schema_says_the_layout_and_keeps_the_rules(layout, batch, target):
    recipe = Recipe(batch_size=batch)
    sections = yaml.safe_load(as_text(content(DIRECTORY, MODEL, target, layout, recipe)))
    assert layout_of(sections) == layout
    degrees, runner, parallel = (sections[name] for name in ("parallel_config", "runner_config", "parallel"))
    cards = 1
    for name in ("data_parallel", "model_parallel", "context_parallel", "pipeline_stage"):
        cards *= degrees[name]
    assert cards == layout.devices and MODEL.num_attention_heads % degrees["model_parallel"] == 0
    assert degrees["micro_batch_num"] >= degrees["pipeline_stage"]
    assert degrees["pipeline_stage"] > 1 or degrees["micro_batch_num"] == 1
    parts = degrees["micro_batch_num"] * runner["gradient_accumulation_steps"]
    assert runner["batch_size"] * degrees["data_parallel"] * parts == batch * layout.dp * layout.micro_batches
    assert not degrees["use_seq_parallel"] or degrees["model_parallel"] > 1
    if degrees["context_parallel_algo"] == "ulysses_cp":
        assert degrees["context_parallel"] * degrees["model_parallel"] <= MODEL.num_key_value_heads
    assert {row[0] for row in parallel["dataset_strategy"]} == {degrees["data_parallel"]} and not parallel["full_batch"]
    offset = sections["model"]["model_config"].get("offset", [0] * layout.pp)
    assert [MODEL.num_hidden_layers // layout.pp + more for more in offset] == list(split(7, layout.pp))
    assert degrees["vocab_emb_dp"] == (target is LEGACY and layout.tp == layout.pp == 1)


@examples(max_examples=80, deadline=None)
@given(st.sampled_from(legal("pynative")), st.integers(1, 5))
def test_the_pynative_schema_says_the_layout(layout, batch):
    sections = yaml.safe_load(as_text(pynative(DIRECTORY, MODEL, {}, layout, Recipe(batch_size=batch)), "pynative"))
    assert layout_of(sections) == layout
    degrees = sections["parallelism"]
    assert sections["training"]["global_batch_size"] == batch * layout.dp * layout.micro_batches
    assert degrees["data_parallel_shard"] == (layout.dp if layout.zero else 1)
    ranges = [[int(n) for n in text.split("-")] for text in degrees.get("pipeline_parallel_layers_per_stage", ["0-6"])]
    assert [layer for first, last in ranges for layer in range(first, last + 1)] == list(range(7))


@pytest.mark.parametrize(
    ("layout", "schema", "words"),
    [(Layout(dp=2, zero=3), "graph", "ZeRO-3"), (Layout(micro_batches=2), "graph", "back to 1"),
     (Layout(dp=2, zero=1), "pynative", "zero2 or zero3"), (Layout(cp=2), "pynative", "zero2 or zero3"),
     (Layout(tp=2), "pynative", "sp"), (Layout(dp=2, recompute="selective"), "pynative", "names modules"),
     (Layout(pp=2, interleave=2, micro_batches=2), "pynative", "one chunk")],
)  # fmt: skip
def test_what_a_schema_cannot_say_is_refused(layout, schema, words):
    assert words in unsaid(layout, schema)
    with pytest.raises(UsageError, match=words):
        content(DIRECTORY, MODEL, MCORE, layout, Recipe(), schema)


def test_another_number_is_another_layout():
    sections = content(DIRECTORY, MODEL, MCORE, Layout(dp=2, tp=2, micro_batches=4), Recipe())
    sections["runner_config"]["gradient_accumulation_steps"] = 3
    assert layout_of(sections) == Layout(dp=2, tp=2, micro_batches=3)
    del sections["parallel_config"]["model_parallel"]
    with pytest.raises(ConfigError, match="no 'model_parallel'"):
        layout_of(sections)


@pytest.mark.parametrize("target", [MCORE, LEGACY])
def test_an_interleaved_pipeline_is_switched_on_where_the_peer_looks_and_in_its_network(target):
    layout = Layout(pp=2, interleave=3, micro_batches=4)
    model = MODEL.with_layers(12)
    sections = yaml.safe_load(as_text(content(DIRECTORY, model, target, layout, Recipe())))
    assert sections["parallel"]["pipeline_config"] == {"pipeline_interleave": True, "pipeline_scheduler": "1f1b"}
    assert sections["model"]["model_config"]["pp_interleave_num"] == 3 and layout_of(sections) == layout
    plain = content(DIRECTORY, model, target, dataclasses.replace(layout, interleave=1), Recipe())
    assert "pipeline_config" not in plain["parallel"] and "pp_interleave_num" not in plain["model"]["model_config"]


def test_selective_recomputation_names_the_operators_of_its_network():
    for target, norm in ((MCORE, "pre_mlp_layernorm"), (LEGACY, "ffn_norm")):
        again = content(DIRECTORY, MODEL, target, Layout(dp=2, recompute="selective"), Recipe())["recompute_config"]
        assert norm in again["select_recompute"] and not again["recompute"]


def test_ulysses_where_the_heads_allow_it():
    assert settings(Layout(tp=2, cp=2), 1, 4)["context_parallel_algo"] == "ulysses_cp"
    for layout, heads in ((Layout(tp=2, cp=4), 4), (Layout(cp=2), 3), (Layout(tp=2), 4)):
        assert settings(layout, 1, heads)["context_parallel_algo"] == "colossalai_cp"


def test_every_layer_has_a_stage():
    assert stage_of(7, 3) == [0, 0, 1, 1, 1, 2, 2] and stage_of(8, 3) == [0, 0, 0, 1, 1, 1, 2, 2]
