"""Curves: numbers that bend the right way."""

from __future__ import annotations

import pytest

from mindport.errors import ConfigError, UsageError
from mindport.mindformers.layout import Layout
from mindport.parallel.plan import (
    bubble,
    memory_by_sequence,
    plan,
    relief,
    scaling,
    speedup_limit,
    traffic,
    zero_memory,
)
from tests.parallel.plan.models import job


def test_weak_scaling_holds_better_than_strong():
    it = job(global_batch=64)
    strong, weak = scaling(it, (8, 16, 64)), scaling(it, (8, 16, 64), weak=True)
    assert [p.devices for p in strong] == [8, 16, 64] and strong[0].efficiency == weak[0].efficiency == 1
    assert [p.global_batch for p in weak] == [64, 128, 512] and {p.global_batch for p in strong} == {64}
    assert strong[2].efficiency < strong[1].efficiency < 1 and weak[2].efficiency > strong[2].efficiency
    assert strong[2].layout is not None and strong[2].layout.devices == 64


def test_scaling_says_where_nothing_fits():
    least = [
        plan(job(settings={"memory": 1e-6}, devices=cards, global_batch=64)).smallest[0].needed for cards in (8, 64)
    ]
    points = scaling(job(settings={"memory": sum(least) / 2 / 2**30}, global_batch=64), (8, 64))
    assert points[0].layout is None and points[0].tokens_per_second == points[0].efficiency == 0
    assert points[1].layout is not None and points[1].efficiency == 1


def test_more_micro_batches_shrink_the_bubble():
    shares = [bubble(4, m) for m in (4, 8, 16, 64)]
    assert shares == sorted(shares, reverse=True) and shares[0] == 3 / 7
    assert bubble(4, 8, 2) < bubble(4, 8) and bubble(1, 1) == 0
    for wrong in ((4, 3, 1), (0, 1, 1), (2, 2, 0)):
        with pytest.raises(UsageError, match="no such pipeline"):
            bubble(*wrong)


def test_memory_grows_with_the_sequence_and_the_states_do_not():
    points = memory_by_sequence(job(), Layout(dp=8), (128, 256, 2**21))
    assert [seq for seq, _ in points] == [128, 256, 2**21]
    assert points[1][1]["activations"] == 2 * points[0][1]["activations"]
    assert points[2][1]["optimizer"] == points[0][1]["optimizer"]
    unfused = memory_by_sequence(job("gpt", fused=False), Layout(dp=8), (128, 256))
    assert unfused[1][1]["activations"] > 2 * unfused[0][1]["activations"]  # scores grow with the square
    with pytest.raises(ConfigError):
        memory_by_sequence(job("gpt"), Layout(dp=8), (4096,))


def test_zero_shares_out_by_stage():
    whole = [sum(parts.values()) for parts in zero_memory(1000, 4)]
    assert whole == [16_000, 7_000, 5_500, 4_000]


def test_fusing_and_hiding_shrink_the_share_of_traffic():
    single, fused, hidden = traffic(job(), Layout(dp=8), buckets=4, overlap=0.5)
    assert single.share > fused.share > hidden.share > 0 and single.messages > fused.messages == 4
    assert hidden.seconds == fused.seconds / 2
    assert traffic(job(devices=1), Layout())[0].seconds == 0
    assert speedup_limit(0.5) == 2 and speedup_limit(1) == float("inf")


def test_measures_against_a_full_memory_in_order():
    found = relief(job(dtype="float32", global_batch=64, settings={"memory": 0.4}))
    names = [step.measure for step in found.steps]
    assert names[0].startswith("half the micro-batch") and names[-1] == "half precision" and len(names) == 8
    needed = [found.needed, *(step.needed for step in found.steps)]
    assert needed == sorted(needed, reverse=True) and all(step.saved > 0 for step in found.steps)
    full, half = found.steps[names.index("full recomputation")], found.steps[-1]
    assert full.slower > 0 > half.slower and half.dtype == "bfloat16"
    assert found.ok == any(step.fits for step in found.steps) and found.text()


def test_measures_that_the_model_does_not_allow_are_left_out():
    found = relief(job("tied", devices=1, host_size=1, global_batch=8))
    names = [step.measure for step in found.steps]
    assert names == ["half the micro-batch, twice as many", "one sample at a time, accumulated",
                     "selective recomputation", "full recomputation"]  # fmt: skip
    assert found.ok and "fits as it is" in found.headline()
    none = relief(job("tied", devices=1, host_size=1, global_batch=8, settings={"memory": 1e-3}))
    assert not none.ok and "after none" in none.headline()
