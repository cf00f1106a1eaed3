"""Each rule refuses what breaks it, by name, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mindport.mindformers.layout import Layout
from mindport.parallel.plan.grid import as_grid, enumerate_layouts, simplified
from mindport.parallel.plan.rules import RULES, legal, settings
from tests.parallel.plan.models import LLAMA, job

GOOD = Layout(dp=2, tp=2, pp=2, micro_batches=3)
BROKEN = [
    ("heads % mp", GOOD, {"num_attention_heads": 9}),
    ("kv heads % mp", GOOD, {"num_key_value_heads": 1}),
    ("ffn % mp", GOOD, {"intermediate_size": 641}),
    ("vocab % mp", GOOD, {"vocab_size": 1025}),
    ("layers >= pipeline_stage", replace(GOOD, dp=1, tp=1, pp=8, micro_batches=8), {"num_hidden_layers": 5}),
    ("micro_batch_num >= pipeline_stage", replace(GOOD, micro_batches=1), {}),
    ("pp_interleave_num needs pipeline_stage > 1", Layout(dp=8, interleave=2), {"num_hidden_layers": 8}),
    ("layers % (pipeline_stage * pp_interleave_num)", replace(GOOD, micro_batches=2, interleave=2), {}),
    ("micro_batch_num % pipeline_stage", replace(GOOD, interleave=2), {"num_hidden_layers": 8}),
    ("use_seq_parallel needs mp > 1", Layout(dp=8, sequence_parallel=True), {}),
    ("seq % cp", Layout(dp=4, cp=2), {"seq": 513}),
    ("seq % (cp * mp)", replace(GOOD, sequence_parallel=True), {"seq": 513}),
    ("zero needs replicas", Layout(tp=4, pp=2, micro_batches=2, zero=1), {}),
    ("zero 3 without a pipeline", replace(GOOD, zero=3), {}),
    ("context parallelism needs fused attention", Layout(dp=4, cp=2), {"fused": False}),
]


def changed(changes):
    """A job, with changes to the model or to itself."""
    own = {name: value for name, value in changes.items() if name in ("seq", "fused")}
    it = job(**own)
    return replace(it, model=replace(LLAMA, **{n: v for n, v in changes.items() if n not in own}))


@pytest.mark.parametrize(("name", "layout", "changes"), BROKEN, ids=[name for name, *_ in BROKEN])
def test_a_layout_is_refused_under_its_rule(name, layout, changes):
    it = changed(changes)
    good, refused = legal(it, as_grid(it, layout))
    assert not good[0] and [(r.rule, r.count, r.example) for r in refused] == [(name, 1, str(layout))]
    assert "{" not in refused[0].reason


@pytest.mark.parametrize("layout", [GOOD, Layout(dp=8), Layout(dp=8, zero=3),
                                    Layout(tp=4, cp=2, sequence_parallel=True),
                                    replace(GOOD, zero=2, sequence_parallel=True, recompute="full")])  # fmt: skip
def test_a_good_layout_breaks_none(layout):
    it = job()
    assert legal(it, as_grid(it, layout))[0].all()


def test_a_batch_that_does_not_divide():
    it = job(global_batch=3)
    grid = enumerate_layouts(it)
    _, refused = legal(it, grid)
    assert refused[0].rule == "global batch" and refused[0].count == int(np.sum(grid.batch == 0)) > 0
    assert {rule.name for rule in RULES} == {"global batch", *(name for name, *_ in BROKEN)}


def test_settings_use_the_framework_s_words():
    it = job()
    found = settings(as_grid(it, GOOD), 0, it)
    assert (found["micro_batch_num"], found["gradient_accumulation_steps"], found["batch_size"]) == (3, 1, 4)
    assert (found["pp_interleave_num"], found["pipeline_interleave"]) == (1, False)
    mixed = settings(as_grid(it, replace(GOOD, micro_batches=2, interleave=4)), 0, it)
    assert (mixed["pp_interleave_num"], mixed["pipeline_interleave"]) == (4, True)
    alone = settings(as_grid(it, Layout(dp=8, zero=2, micro_batches=3)), 0, it)
    assert (alone["micro_batch_num"], alone["gradient_accumulation_steps"]) == (1, 3)  # pp=1 resets it
    assert alone["enable_parallel_optimizer"] and alone["gradient_accumulation_shard"]


def test_what_means_nothing_is_dropped():
    assert simplified(Layout(zero=2, sequence_parallel=True)) == Layout()
    assert simplified(Layout(dp=2, tp=2, zero=2, sequence_parallel=True)).zero == 2
