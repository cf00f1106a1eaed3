"""A schedule, pass by pass, comes to what the formulas say, and nothing in it happens before its input is there."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.errors import UsageError
from mindport.mindformers.layout import Layout
from mindport.parallel.plan import bubble, schedule
from mindport.parallel.plan.grid import as_grid
from mindport.parallel.plan.memory import memory
from tests.parallel.plan.models import MODELS, job

PIPELINES = st.tuples(st.integers(2, 6), st.integers(1, 5), st.integers(1, 4)).map(lambda t: (t[0], t[0] * t[1], t[2]))


@settings(max_examples=40, deadline=None)
@given(PIPELINES)
def test_what_waits_is_what_the_formula_says(pipeline):
    stages, micro_batches, chunks = pipeline
    found = schedule(stages, micro_batches, chunks)
    assert found.ok and found.idle == pytest.approx(bubble(stages, micro_batches, chunks))
    assert found.bubble == pytest.approx((stages - 1) / (chunks * micro_batches))


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (4, 5), (4, 8), (3, 7)])
def test_a_plain_pipeline_takes_any_number_of_micro_batches(stages, micro_batches):
    found = schedule(stages, micro_batches)
    assert found.idle == pytest.approx(bubble(stages, micro_batches))
    assert [found.held(stage) for stage in range(stages)] == [
        min(stages - stage, micro_batches) for stage in range(stages)
    ]


@settings(max_examples=20, deadline=None)
@given(PIPELINES)
def test_a_stage_does_one_thing_at_a_time_and_waits_for_its_input(pipeline):
    stages, _, chunks = pipeline
    work = schedule(*pipeline).work
    ends = {(w.chunk * stages + w.stage, w.micro_batch, w.forward): w.end for w in work}
    for stage in range(stages):
        mine = sorted((w for w in work if w.stage == stage), key=lambda w: w.start)
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(mine))
    for w in work:
        virtual, last = w.chunk * stages + w.stage, stages * chunks - 1
        if w.forward:
            needs = [(virtual - 1, w.micro_batch, True)] if virtual else []
        else:
            needs = [(virtual, w.micro_batch, True)] + [(virtual + 1, w.micro_batch, False)] * (virtual < last)
        assert all(ends[need] <= w.start + 1e-9 for need in needs)


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("stages", [2, 4])
def test_the_planner_counts_the_micro_batches_that_the_schedule_holds(stages, chunks):
    it = replace(job("gpt", devices=stages, global_batch=8), model=MODELS["gpt"].with_layers(16))
    grid = as_grid(it, Layout(pp=stages, micro_batches=8, interleave=chunks))
    parts = memory(it, grid, np.arange(stages)[None])["activations"][0]
    held = [schedule(stages, 8, chunks).held(stage) for stage in range(stages)]
    assert parts / parts[-1] == pytest.approx(np.array(held) / held[-1])


@pytest.mark.parametrize("wrong", [(4, 3, 1), (0, 1, 1), (2, 2, 0), (1, 4, 2), (4, 6, 2), (4, 4000, 1)])
def test_no_such_pipeline(wrong):
    with pytest.raises(UsageError, match=r"pipeline|schedule"):
        schedule(*wrong)


def test_the_headline_has_the_rule_of_two_to_four():
    said = [schedule(4, m).headline() for m in (4, 8, 16, 17)]
    assert ["fewer than" in said[0], "within" in said[1], "within" in said[2], "more than" in said[3]] == [True] * 4
    assert "27.3%" in said[1] and "37.5%" in said[1] and schedule(4, 8).tables()[0].rows[0][1] == "0"
