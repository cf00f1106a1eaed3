"""Time by part: the published factors come out, and what costs more takes longer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mindport.mindformers.layout import Layout
from mindport.parallel.plan import bubble, evaluate
from mindport.parallel.plan.collectives import Group, all_reduce, gather, rounds, send
from mindport.parallel.plan.grid import as_grid
from mindport.parallel.plan.step_time import data_traffic
from tests.parallel.plan.models import job

FREE = {"latency": 0.0}


def test_compute_is_flops_over_what_is_reached():
    it = job("tied", settings={"peak": 1e14, "efficiency": 0.5, "half_width": 0})
    found = evaluate(it, Layout(dp=8))
    assert found.time["compute"] == pytest.approx(it.size.flops(512) * 3 * 512 / 5e13)
    assert found.seconds == pytest.approx(sum(found.time.values()))
    assert found.mfu == pytest.approx(0.5 * found.time["compute"] / found.seconds)
    assert found.tokens_per_second == pytest.approx(24 * 512 / 8 / found.seconds)


def test_full_recomputation_is_a_forward_pass_more():
    it = job("tied", settings={"half_width": 0})
    plain, full = evaluate(it, Layout(dp=8)), evaluate(it, Layout(dp=8, recompute="full"))
    head = 6 * it.size.table * 3 * 512 / (it.peak * it.hardware["efficiency"])
    assert full.time["recompute"] == pytest.approx((plain.time["compute"] - head) / 3)
    assert plain.time["recompute"] == 0 < evaluate(it, Layout(dp=8, recompute="selective")).time["recompute"]


@pytest.mark.parametrize("stages", [2, 4])
def test_the_bubble_is_stages_less_one_over_micro_batches(stages):
    layout = Layout(dp=8 // stages, pp=stages, micro_batches=4)
    found = evaluate(job("tied", global_batch=64), layout)
    slots = sum(found.time[part] for part in ("compute", "recompute", "tensor traffic", "pipeline traffic"))
    assert found.time["bubble"] / slots == pytest.approx((stages - 1) / 4)
    assert bubble(stages, 4) == pytest.approx(found.time["bubble"] / (slots + found.time["bubble"]))


def test_an_interleaved_pipeline_divides_the_bubble():
    work = [b / (1 - b) for b in (bubble(4, 8), bubble(4, 8, interleave=2))]
    assert work == pytest.approx([3 / 8, 3 / 16])
    layout = Layout(dp=4, pp=2, micro_batches=4)
    plain, mixed = (evaluate(job("tied", global_batch=16), replace(layout, interleave=v)) for v in (1, 3))
    slots = sum(mixed.time[part] for part in ("compute", "recompute", "tensor traffic", "pipeline traffic"))
    assert mixed.time["bubble"] / slots == pytest.approx(1 / (3 * 4))
    assert mixed.time["pipeline traffic"] == pytest.approx(3 * plain.time["pipeline traffic"])


def test_a_narrow_share_of_a_matrix_is_slower():
    it = job("tied", settings={"half_width": 128})
    whole, half, quarter = (evaluate(it, Layout(dp=8 // tp, tp=tp)).time["compute"] for tp in (1, 2, 4))
    assert [half / whole, quarter / whole] == pytest.approx([(1 + 1) / (1 + 0.5), (1 + 2) / (1 + 0.5)])  # 256 columns


@pytest.mark.parametrize("size", [2, 4, 8])
def test_an_all_reduce_sends_what_a_ring_sends(size):
    it = job(settings=FREE)
    ring = 2 * (size - 1) / size * 1e9 / (it.hardware["link"] * (size - 1))  # over all its links at once
    assert all_reduce(it, 1e9, Group(np.array(size), np.array(1))) == pytest.approx(ring)


def test_a_group_across_servers_waits_for_the_network():
    it = job(settings=FREE, devices=32)
    inside, across = (float(gather(it, 1e9, Group(np.array(8), np.array(stride)))) for stride in (1, 8))
    assert across == pytest.approx(7 / 8 * 1e9 / it.hardware["network"]) and across > 5 * inside
    two = float(gather(it, 1e9, Group(np.array(16), np.array(1))))  # eight on each of two servers
    assert two == pytest.approx(1e9 / 8 / it.hardware["link"] + 1e9 / 8 / 2 / it.hardware["network"])
    assert float(gather(it, 1e9, Group(np.array(1), np.array(1)))) == 0
    assert send(it, 1e9, np.array(8)) > send(it, 1e9, np.array(4))
    assert rounds(np.array([1, 2, 5, 1024])).tolist() == [0, 1, 3, 10]


@pytest.mark.parametrize(("zero", "parts", "passes"),
                         [(0, 3, 2), (1, 3, 2), (2, 1, 2), (2, 3, 4), (3, 1, 3), (3, 3, 9)])  # fmt: skip
def test_gradients_travel_two_times_and_weights_a_third(zero, parts, passes):
    it = job(settings=FREE)
    grid = as_grid(it, Layout(dp=8, zero=zero, micro_batches=parts))
    once = gather(it, 2 * 1e6, Group(np.array(8), np.array(1)))
    assert data_traffic(it, grid, np.array([1e6]))[0] == pytest.approx(passes * once)


def test_tensor_traffic_is_four_all_reduces_a_layer_and_six_recomputed():
    it = job("tied", settings={**FREE, "tp_overlap": 0.0}, devices=8)
    each = float(all_reduce(it, 2 * 512 * 24 * 256, Group(np.array(8), np.array(1))))
    assert evaluate(it, Layout(tp=8)).time["tensor traffic"] == pytest.approx(4 * 6 * each)
    assert evaluate(it, Layout(tp=8, recompute="full")).time["tensor traffic"] == pytest.approx(6 * 6 * each)
    hidden = replace(it, hardware=it.hardware.with_values({"tp_overlap": 0.75}))
    assert evaluate(hidden, Layout(tp=8)).time["tensor traffic"] == pytest.approx(6 * each)


def test_context_parallelism_exchanges_heads_or_sends_keys_and_values_round():
    ulysses, ring = evaluate(job(), Layout(dp=2, cp=4)), evaluate(job(), Layout(cp=8))
    assert ulysses.settings["context_parallel_algo"] == "ulysses_cp"  # cp · mp = 4 key/value heads
    assert ring.settings["context_parallel_algo"] == "colossalai_cp"
    assert min(ulysses.time["context traffic"], ring.time["context traffic"]) > 0
    assert evaluate(job(), Layout(dp=8)).time["context traffic"] == 0


def test_the_slowest_stage_sets_the_pace():
    layout = Layout(dp=4, pp=2, micro_batches=8)
    even, uneven = (evaluate(job(name, global_batch=64), layout) for name in ("tied", "llama"))
    assert even.layers == (3, 3) and uneven.layers == (4, 3)
    whole = evaluate(job("llama", global_batch=64), Layout(dp=8)).time["compute"]
    assert uneven.time["compute"] > whole  # a half of the layers would be as fast
