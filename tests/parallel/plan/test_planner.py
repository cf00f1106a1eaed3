"""The search: every layout once, the same answer as one by one, refusals counted, the rest in words."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport import cli
from mindport.errors import ConfigError, UsageError
from mindport.mindformers.layout import Layout
from mindport.parallel.plan import ESTIMATED, evaluate, plan
from mindport.parallel.plan.grid import as_grid, enumerate_layouts
from mindport.parallel.plan.rules import legal
from tests.parallel.plan.models import LLAMA, job

OPTIONS = list(product(range(4), (False, True), ("none", "selective", "full")))


def one_by_one(it):
    """Every legal layout, with rules and products spelled out in plain Python."""
    m, n = it.model, range(1, it.devices + 1)
    for dp, tp, pp, cp in product(n, n, n, n):
        if dp * tp * pp * cp != it.devices or it.global_batch % dp:
            continue
        sizes = (m.num_attention_heads, m.num_key_value_heads, m.intermediate_size, m.vocab_rows)
        if any(size % tp for size in sizes) or pp > m.num_hidden_layers or it.seq % cp:
            continue
        for parts in (k for k in range(1, it.global_batch // dp + 1) if it.global_batch // dp % k == 0):
            for zero, sp, recompute in OPTIONS:
                bad = (parts < pp) or (sp and (tp == 1 or it.seq % (cp * tp))) or (zero and dp * cp == 1)
                if not bad and not (zero == 3 and pp > 1):
                    for chunks in range(1, m.num_hidden_layers + 1):
                        if chunks == 1 or (pp > 1 and m.num_hidden_layers % (pp * chunks) == 0 and parts % pp == 0):
                            yield Layout(dp, tp, pp, cp, zero, sp, recompute, parts, chunks)


@pytest.mark.parametrize(("name", "devices", "batch", "memory"), [("llama", 8, 4, 59), ("tied", 6, 12, 0.25),
                                                                  ("gpt", 4, 4, 0.5)])  # fmt: skip
def test_the_search_is_what_trying_them_one_by_one_finds(name, devices, batch, memory):
    it = job(name, devices=devices, global_batch=batch, settings={"memory": memory}, host_size=devices)
    layouts = list(one_by_one(it))
    found = plan(it, keep=1000)
    assert found.legal == len(layouts) == len(set(layouts)) and found.tried == found.legal + sum(
        r.count for r in found.refused
    )
    each = [candidate for candidate in (evaluate(it, layout) for layout in layouts) if candidate.fits]
    assert found.fitting == len(each) > 0
    rates = sorted((candidate.tokens_per_second for candidate in each), reverse=True)
    assert [c.tokens_per_second for c in found.ranked] == pytest.approx(rates[:1000])
    assert found.close == sum(rate >= 0.85 * rates[0] for rate in rates)
    assert {str(c.layout) for c in found.ranked} <= {str(layout) for layout in layouts}


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 48), st.integers(1, 48), st.sampled_from(["llama", "tied", "gpt"]))
def test_every_layout_uses_every_card_and_the_whole_batch(devices, batch, name):
    it = job(name, devices=devices, global_batch=batch, host_size=1)
    grid = enumerate_layouts(it)
    assert (grid.dp * grid.tp * grid.pp * grid.cp == devices).all()
    good, refused = legal(it, grid)
    assert int(good.sum()) + sum(r.count for r in refused) == len(grid)
    some = grid[good]
    assert (some.dp * some.micro_batches * some.batch == batch).all()
    assert len({some.layout(i) for i in range(len(some))}) == len(some)


def test_equal_jobs_have_equal_plans():
    found, again = plan(job()), plan(job(settings={"peak": 313e12}))
    assert [c.layout for c in found.ranked] == [c.layout for c in again.ranked]
    assert found.ranked[0].tokens_per_second == again.ranked[0].tokens_per_second
    assert plan(job("tied")).ranked[0].tokens_per_second != found.ranked[0].tokens_per_second


def test_a_fixed_micro_batch():
    found = plan(job(micro_batch=2))
    assert {c.batch for c in found.ranked} == {2}
    assert plan(job(micro_batch=7)).legal == 0 and plan(job(micro_batch=7)).refused[0].rule == "global batch"
    assert "none is legal" in plan(job(micro_batch=7)).headline() and not plan(job(micro_batch=7)).ok


def test_nothing_fits_and_the_smallest_is_shown():
    it = job(devices=2, global_batch=4)
    found = plan(job(devices=2, global_batch=4, settings={"memory": 1e-3}))
    assert not found.ok and found.best is None and found.fitting == 0 and "No layout fits" in found.headline()
    assert found.smallest[0].needed == min(evaluate(it, layout).needed for layout in one_by_one(it))
    assert found.text()


def test_everything_says_that_it_is_estimated():
    found = plan(job(), keep=3)
    assert ESTIMATED in found.headline() and ESTIMATED in found.tables()[0].title and len(found.ranked) == 3
    assert [p.state for p in found.properties()] == ["not verified"]
    answer = json.loads(json.dumps(found.as_dict()))
    assert answer["note"] == ESTIMATED and answer["best"] == str(found.best.layout)
    assert answer["ranked"][0]["needed"] == sum(answer["ranked"][0]["memory"].values())


def test_the_best_is_one_that_can_be_written_down():
    slow = {"link": 1e9, "latency": 1e-6}
    it = job(settings={"memory": 0.022, **slow}, micro_batch=1, global_batch=8)
    found = plan(it, keep=500)
    assert found.ranked[0].layout.zero == 3 and found.ranked[0].expressible != "yes"
    assert found.best is not None and found.best.expressible == "yes"
    first = next(i for i, c in enumerate(found.ranked) if c.expressible == "yes")
    assert first > 0
    short = plan(it, keep=first)
    assert short.best == found.best and short.ranked == found.ranked[: first + 1]
    none = plan(job(settings={"memory": 0.012, **slow}, micro_batch=1, global_batch=8, seq=128))
    assert none.best is not None and none.best.layout.zero == 3 and "no YAML says it" in none.headline()


def test_constants_at_their_ends_move_the_answer():
    found = plan(job())
    rates = {(end.constant, end.value): end.tokens_per_second for end in found.ends}
    assert rates["peak", 294.9e12] < found.best.tokens_per_second < rates["peak", 320e12]
    assert {end.needed for end in found.ends if end.constant == "margin"} != {found.best.needed}
    assert plan(job(settings={"memory": 1e-3})).ends == ()


def test_one_layout_by_itself():
    alone = plan(job(), layout=Layout(dp=8, zero=1))
    assert (alone.tried, alone.legal, alone.fitting) == (1, 1, 1)
    assert alone.best == evaluate(job(), Layout(dp=8, zero=1))
    refused = plan(job(), layout=Layout(dp=8, sequence_parallel=True))
    assert not refused.ok and refused.refused[0].rule == "use_seq_parallel needs mp > 1" and refused.text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"devices": 0}, "devices"), ({"devices": 12}, "whole number of servers"), ({"seq": 0}, "seq"),
     ({"micro_batch": 0}, "micro_batch"), ({"device": "910A"}, "bfloat16"), ({"device": "H100"}, "no constants"),
     ({"devices": 70000}, "devices")],
)  # fmt: skip
def test_jobs_that_make_no_sense(changes, words):
    with pytest.raises(UsageError, match=words):
        job(**changes)


def test_a_sequence_is_at_most_the_context():
    with pytest.raises(ConfigError, match="longer than the model's context"):
        job("gpt", seq=2049)
    with pytest.raises(ConfigError):
        replace(job(), model=replace(LLAMA, max_position_embeddings=511))


def test_layouts_of_another_job():
    with pytest.raises(UsageError, match="another number of devices"):
        as_grid(job(), Layout(dp=4))
    with pytest.raises(UsageError, match="does not divide"):
        as_grid(job(), Layout(dp=8, micro_batches=2))
    with pytest.raises(UsageError, match="from 1 on"):
        plan(job(), keep=0)


def test_the_command_line(capsys):
    words = ["plan", "tiny-llama", "--devices", "2", "--seq", "32", "--global-batch", "8", "--keep", "2"]
    assert cli.main(words) == 0
    assert "estimated, not measured" in capsys.readouterr().out
    assert cli.main([*words, "--set", "memory=0.0001", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"] and answer["job"]["constants"]["memory"]["source"] == "given"
    assert cli.main(["plan", "tiny-llama", "--seq", "32", "--layout", "dp4,zero1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["job"]["devices"] == 4
    for wrong in (["plan"], ["plan", "x", "--validate"], [*words, "--set", "peek=1"], [*words, "--device", "x"],
                  [*words, "--devices", "0"], [*words, "--seq", "99999999"], [*words, "--layout", "dp4"],
                  [*words, "--layout", "x"]):  # fmt: skip
        assert cli.main(wrong) == 2
        capsys.readouterr()
