"""Strategies: they follow the schema's axis, fill the cards of a stage, and divide every shape that they split."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.config.schema import parameters, shapes
from mindport.mindformers.layout import Layout
from mindport.parallel.ascend import strategies, strategies_table
from tests.config.test_targets import BIASED, GPT2
from tests.parallel.plan.models import MODELS

LAYOUT = Layout(dp=2, tp=4, zero=1, sequence_parallel=True)


def parts(config, layout):
    return {(s.cell, s.operator): s for s in strategies(config, layout)}


def test_columns_and_rows_follow_the_schema():
    found = parts(MODELS["llama"], LAYOUT)
    assert found["blocks.{}.attn.q", "MatMul"].inputs == ((2, 1), (4, 1))
    assert found["blocks.{}.attn.o", "MatMul"].inputs == ((2, 4), (1, 4))
    assert found["blocks.{}.mlp.down", "MatMul"].output == (8, 1)  # reduce-scatter along the rows
    assert found["embed", "Gather"].inputs == ((4, 1), (2, 1)) and found["head", "MatMul"].inputs == ((2, 1), (4, 1))
    whole = parts(MODELS["llama"], replace(LAYOUT, sequence_parallel=False))
    assert whole["blocks.{}.mlp.down", "MatMul"].output is None


def test_a_tied_head_and_learned_positions():
    found = parts(MODELS["gpt"], LAYOUT)
    assert found["position", "Gather"].inputs == ((1, 1), (1, 1))
    assert ("head", "MatMul") in parts(MODELS["tied"], LAYOUT)


def test_biases_go_with_their_products():
    found = parts(GPT2, LAYOUT)
    assert found["blocks.{}.mlp.up", "BiasAdd"].inputs == ((2, 4), (4,))
    assert found["blocks.{}.mlp.down", "BiasAdd"].inputs == ((8, 1), (1,))
    assert ("blocks.{}.attn.o", "BiasAdd") not in parts(BIASED, LAYOUT)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["llama", "tied", "gpt"]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 3]), st.booleans())
def test_they_tile_the_shapes(name, tp, dp, sequence):
    config, layout = MODELS[name], Layout(dp=dp, tp=tp, sequence_parallel=sequence and tp > 1)
    dims = config.dims | {"rows": 6 * 512, "B": 6, "T": 512, "1": 1}
    for strategy in strategies(config, layout):
        for letters, split in zip(strategy.shapes, strategy.inputs, strict=True):
            assert len(letters.split()) == len(split)
            assert all(dims[letter] % count == 0 for letter, count in zip(letters.split(), split, strict=True))
        first, second = strategy.inputs
        if strategy.operator == "MatMul":
            assert first[1] == second[1]  # both split the sum alike
            assert first[0] * second[0] * first[1] == dp * tp
            assert strategy.output is None or math.prod(strategy.output) == dp * tp


@pytest.mark.parametrize("name", MODELS)
def test_every_matrix_of_the_model_has_one(name):
    config = MODELS[name]
    cells = {s.cell.format(i) for s in strategies(config, LAYOUT) for i in range(config.num_hidden_layers)}
    matrices = {name.removesuffix(".weight") for name, shape in shapes(config).items() if len(shape) == 2}
    assert matrices <= cells and cells - matrices <= {"head"}
    for full, param in parameters(config):
        if len(param.shape.split()) == 2 and param.tp is not None:
            pattern = ".".join("{}" if part.isdigit() else part for part in full.removesuffix(".weight").split("."))
            split = next(s for s in strategies(config, LAYOUT) if s.cell == pattern)
            weights = split.inputs[0] if split.operator == "Gather" else split.inputs[1]
            assert weights[param.tp] == LAYOUT.tp


def test_the_table_says_that_it_is_not_verified():
    assert "not verified" in strategies_table(MODELS["llama"], LAYOUT).title
