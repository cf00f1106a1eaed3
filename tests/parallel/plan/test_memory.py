"""Memory by part: the published formulas come out, parts add up, and more sharing never needs more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.mindformers.layout import Layout
from mindport.mindformers.stages import layers_of, split
from mindport.parallel.plan import evaluate, zero_memory
from mindport.parallel.plan.grid import as_grid, enumerate_layouts
from mindport.parallel.plan.memory import activations, memory, total, worst_stages
from mindport.parallel.plan.rules import legal
from tests.parallel.plan.models import MODELS, job


def kept(name: str, layout: Layout, **changes: object) -> float:
    """Bytes that one layer keeps of a token, by hidden size."""
    it = job(name, devices=layout.devices, **changes)
    grid = as_grid(it, layout).columns
    found = activations(it).kept(grid, layout.recompute == "selective", layout.recompute == "full")
    return float(found[0, 0]) / it.model.hidden_size


@pytest.mark.parametrize("t", [1, 2, 4])
def test_korthikanti_s_formulas_for_a_gpt(t):
    scores = 5 * 8 * 512 / 256  # 5·a·s/h
    plain, sequence = Layout(tp=t), Layout(tp=t, sequence_parallel=True)
    assert kept("gpt", plain, fused=False) == pytest.approx(10 + 24 / t + scores / t)
    assert kept("gpt", sequence, fused=False) == pytest.approx((34 + scores) / t)
    assert kept("gpt", replace(sequence, recompute="selective"), fused=False) == pytest.approx(34 / t)
    assert kept("gpt", replace(plain, recompute="full"), fused=False) == 2
    assert kept("gpt", replace(sequence, recompute="full"), fused=False) == 2 / t


@pytest.mark.parametrize("t", [1, 2, 4])
def test_a_llama_with_fused_attention(t):
    f, kv = 640 / 256, 4 / 8
    assert kept("llama", Layout(tp=t, sequence_parallel=True)) == pytest.approx((16 + 4 * kv + 8 * f) / t)
    selective = Layout(tp=t, sequence_parallel=True, recompute="selective")
    assert kept("llama", selective) == pytest.approx((12 + 4 * kv + 4 * f) / t)


@pytest.mark.parametrize(("zero", "a", "b"), [(0, 16, 0), (1, 4, 12), (2, 2, 14), (3, 0, 16)])
def test_states_of_mixed_precision_adam(zero, a, b):
    it = job("tied")
    parts = evaluate(it, Layout(dp=8, zero=zero)).memory
    states = sum(parts[name] for name in ("weights", "gradients", "optimizer"))
    assert states == pytest.approx((a + b / 8) * it.size.parameters)
    assert sum(zero_memory(it.size.parameters, 8)[zero].values()) == pytest.approx(states)


def test_half_precision_parameters_have_no_float32_copy():
    it = job("tied", settings={"master": 0})
    parts = evaluate(it, Layout(dp=8)).memory
    assert parts["optimizer"] == 8 * it.size.parameters
    assert evaluate(it, Layout(dp=8, zero=1)).memory["optimizer"] == pytest.approx((8 + 2) / 8 * it.size.parameters)
    single = evaluate(job("tied", dtype="float32"), Layout(dp=8)).memory
    assert (single["weights"], single["optimizer"]) == (4 * it.size.parameters, 8 * it.size.parameters)


def test_a_pipeline_s_first_stage_holds_the_most_and_the_last_has_the_head():
    it = job("tied", devices=3, global_batch=12)
    grid = as_grid(it, Layout(pp=3, micro_batches=12))
    parts = memory(it, grid, np.arange(3)[None])
    assert (parts["activations"][0] / parts["activations"][0, 2] == [3, 2, 1]).all()
    assert (parts["logits and loss"][0] > 0).tolist() == [False, False, True]
    table = it.size.table  # the head is a copy of the embedding
    assert parts["weights"][0, 2] == pytest.approx(parts["weights"][0, 1] + 2 * (table + 256))
    few = memory(it, as_grid(it, Layout(pp=3, micro_batches=2)), np.arange(3)[None])
    assert (few["activations"][0] / few["activations"][0, 2] == [2, 2, 1]).all()


def test_layers_that_are_left_over_go_to_the_middle_first():
    assert split(7, 4) == (2, 2, 2, 1) and split(6, 4) == (1, 2, 2, 1) and split(5, 4) == (1, 2, 1, 1)
    assert split(5, 2) == (3, 2) and split(5, 1) == (5,)


@given(st.integers(1, 130), st.integers(1, 64))
def test_a_split_is_whole_and_even(layers, stages):
    parts = split(layers, stages)
    assert sum(parts) == layers and len(parts) == stages and max(parts) - min(parts) <= 1


LAYOUTS = st.integers(0, 10**9)
NAMES = st.sampled_from(sorted(MODELS))
GRIDS = {}


def stages(it, layout):
    """Bytes by part on a card of every stage, each (1, S)."""
    return memory(it, as_grid(it, layout), np.arange(layout.pp)[None])


def legal_grid(name: str):
    """All legal layouts of a model on 16 cards, enumerated once."""
    if name not in GRIDS:
        it = job(name, devices=16)
        grid = enumerate_layouts(it)
        GRIDS[name] = it, grid[legal(it, grid)[0]]
    return GRIDS[name]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_parts_add_up_and_three_stages_say_the_fullest(name):
    it, grid = legal_grid(name)
    parts = memory(it, grid, worst_stages(grid))
    assert all((part >= 0).all() for part in parts.values())
    assert np.allclose(total(parts), sum(parts.values()))
    every = np.minimum(np.arange(16)[None], grid.pp[:, None] - 1)
    assert np.allclose(total(memory(it, grid, every)).max(axis=1), total(parts).max(axis=1))
    assert (layers_of(it.size.layers, grid.pp[:, None], every) >= 1).all()


@settings(max_examples=60, deadline=None)
@given(NAMES, LAYOUTS)
def test_more_sharing_never_needs_more(name, pick):
    it, grid = legal_grid(name)
    layout = grid.layout(pick % len(grid))
    base, found = stages(it, layout), evaluate(it, layout)
    assert found.needed == pytest.approx(sum(found.memory.values())) == pytest.approx(total(base).max())
    longer = stages(replace(it, seq=2 * it.seq), layout)
    assert (longer["activations"] > base["activations"]).all() and (total(longer) > total(base)).all()
    if layout.zero < 3 and layout.dp * layout.cp > 1:
        more = stages(it, replace(layout, zero=layout.zero + 1))
        assert all((more[part] <= base[part]).all() for part in ("weights", "gradients", "optimizer"))
    if layout.dp % 2 == 0:
        apart = replace(layout, dp=layout.dp // 2, tp=2 * layout.tp, micro_batches=2 * layout.micro_batches)
        assert (stages(it, apart)["weights"] < base["weights"]).all() or layout.zero == 3
    kept = [stages(it, replace(layout, recompute=how))["activations"] for how in ("none", "selective", "full")]
    assert (kept[0] > kept[1]).all() and (kept[1] > kept[2]).all()


def test_what_is_recomputed_takes_the_place_of_the_logits():
    parts = evaluate(job("llama", devices=1), Layout(recompute="full")).memory
    it = job("llama", devices=1)
    tokens = 24 * 512
    again = tokens * 256 * (16 + 4 * 0.5 + 8 * 2.5)
    assert parts["recomputed layer"] == pytest.approx(max(again - parts["logits and loss"], 0))
    assert parts["logits and loss"] == tokens * 1024 * 10 and it.element == 2
