"""Lengths, scaling, layouts and profiles: what is read off a measurement, with measurements made up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mindport.errors import BackendError
from mindport.sources import resolve
from mindport.tuning import compare_lengths, layout, lengths, profile, scaling
from mindport.tuning.case import Timing
from mindport.tuning.isolated import isolated
from mindport.tuning.layout import IMAGE, USUAL, Layout, Timed
from mindport.tuning.lengths import AS_THEY_COME, BUCKETED, BUCKETS, DYNAMIC, EAGER, PADDED, Lengths, Way
from tests.tuning.studies import states

TEXTS = (10, 20, 30)
WAYS = (Way(EAGER), Way(AS_THEY_COME, 3, 9.0), Way(PADDED, 1, 3.0, 0.1, 0.5, 1e-7), Way(BUCKETED, BUCKETS, 6.0),
        Way(DYNAMIC, refused="no"))  # fmt: skip


def with_way(index: int, **changes) -> Lengths:
    return Lengths(TEXTS, (*WAYS[:index], replace(WAYS[index], **changes), *WAYS[index + 1 :]))


def test_compilations_are_as_many_as_shapes():
    found = Lengths(TEXTS, WAYS)
    assert found.ok and "as they come 3, 9.0 s; padded 1, 3.0 s" in found.headline()
    assert found.tables()[0].rows[-1][-1] == "refused: no"


@pytest.mark.parametrize(
    ("index", "changes"),
    [(1, {"compiles": 1}), (2, {"compiles": 3}), (3, {"compiles": 3}), (2, {"error": 1e-3}),
     (3, {"error": float("nan")}), (2, {"refused": "x"})],
)  # fmt: skip
def test_a_compilation_too_many_or_another_loss_turns_it_red(index, changes):
    found = with_way(index, **changes)
    assert not found.ok and states(found) == ["failed"]


def test_scaling_puts_time_beside_operations(monkeypatch):
    monkeypatch.setattr(scaling, "isolated", lambda function, config, tokens, rounds: [1e-5 * t for t in tokens])
    found = compare_lengths(resolve("tiny-llama"), "smoke")
    factors = found.factors()
    assert factors["measured"] == pytest.approx([2.0, 2.0])
    assert all(2 < factor < 4 for factor in factors["by operations"]) and factors["by operations"][1] > 2.1
    assert [length.tokens for length in found.lengths] == [64, 128, 256] and found.ok


def timed(layout: str, center: float, error: float = 0.0) -> Timed:
    return Timed(layout, Timing.of([center - 1, center, center + 1]), error)


@pytest.mark.parametrize(("other", "said"), [(20.0, "refuted"), (10.5, "undecided"), (5.0, "confirmed")])
def test_a_layout_wins_only_beyond_the_spread(other, said):
    assert Layout((1, 2, 3, 4), (timed(USUAL, 10.0), timed(IMAGE, other))).claim.startswith(said)


def test_layouts_that_compute_something_else_are_no_comparison():
    assert Layout((1, 2, 3, 4), (timed(USUAL, 10.0), timed(IMAGE, 1.0))).ok
    assert states(Layout((1, 2, 3, 4), (timed(USUAL, 10.0), timed(IMAGE, 1.0, 0.1))))[0] == "failed"


def test_layouts_are_really_computed():
    rows = isolated(layout.measure, 2, 5, 6, 7, 2)
    assert next(name for name, _, _ in rows) == USUAL and len(rows) == 4
    assert all(len(seconds) == 2 and error < 1e-5 for _, seconds, error in rows)


def event(name: str, start: float, length: float, lane: int = 2) -> dict:
    return {"ph": "X", "name": name, "pid": lane, "tid": 0, "ts": str(start), "dur": str(length)}


LANE = {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "CPU OP"}}


def test_the_timeline_is_divided_among_its_parts(tmp_path):
    kernel = "Gradients/Default/loss-Next/attend-Cpu/Custom-op2"
    events = [LANE, event("Default/loss-Next/MatMul-op1", 0, 300), event(kernel, 300, 450),
              event("Default/Custom-op3", 900, 100), event("a scope", 0, 9999, lane=3)]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps(events))
    calls, wall = profile.read_calls(tmp_path / "t.json")
    parts = {part.name: part.share for part in profile.by_part(calls, wall)}
    assert parts == pytest.approx({"backward": 0.45, "forward": 0.3, "optimizer": 0.1, "idle": 0.15})
    operators = profile.by_operator(calls)
    assert [operator.name for operator in operators] == ["Custom: attend", "MatMul", "Custom: optimizer"]
    assert [operator.share for operator in operators] == pytest.approx([450 / 850, 300 / 850, 100 / 850])


def test_a_timeline_without_operators_is_refused(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps([LANE, event("a scope", 0, 1, lane=3)]))
    with pytest.raises(BackendError, match="no operators"):
        profile.read_calls(tmp_path / "t.json")


def test_a_profile_without_a_backward_pass_is_none_of_a_training_step(tmp_path):
    calls = [("Default/loss-Next/MatMul-op1", 1.0), ("Gradients/Default/loss-Next/MatMul-op2", 2.0)]
    seen = profile.Profile("w", profile.by_operator(calls), profile.by_part(calls, 4.0), tmp_path)
    assert seen.ok and states(seen) == ["verified"]
    assert not replace(seen, parts=profile.by_part(calls[:1], 4.0)).ok


def test_the_processs_error_is_told():
    assert lengths.isolated is isolated
    from mindport.tuning.arithmetic import layer_growth, time_ratio

    assert isolated(layer_growth, 768, 1024) == pytest.approx(layer_growth(768, 1024))
    with pytest.raises(BackendError, match="ZeroDivisionError"):
        isolated(time_ratio, 1.0, 0.5) and isolated(time_ratio, 0.5, 1.0)
