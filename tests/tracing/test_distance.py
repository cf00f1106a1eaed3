"""Distances, limits, and rows in which they are used."""

from __future__ import annotations

import numpy as np
import pytest

from mindport.parity.trace import BFLOAT16, Trace
from mindport.tracing import compare_traces, read_rules
from mindport.tracing.distance import distance
from mindport.tracing.limits import BASE, BLIND

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)


def trace(out, **more):
    """A trace of one module, and what else is given: arrays by name, or facts of the manifest."""
    arrays = {"out/fc": out, **{name: value for name, value in more.items() if isinstance(value, np.ndarray)}}
    return Trace({name: value for name, value in more.items() if name not in arrays}, arrays)


def row(a, b, rules=(), **options):
    return next(row for row in compare_traces(a, b, read_rules(rules), **options).rows if row.kind == "out")


def test_what_is_equal_is_at_no_distance():
    found = distance(X, X)
    assert (found.error, found.relative) == (0, 0) and found.cosine == pytest.approx(1)


def test_an_error_is_held_against_its_sample_and_not_the_whole():
    other, big = X.copy(), X.copy()
    big[0] *= 1000
    other[1, 0, 0, 0] += 0.01
    other[0] *= 1000
    found = distance(other, big)
    assert found.at == (1, 0, 0, 0) and found.relative == pytest.approx(0.01 / np.abs(X[1]).max(), rel=1e-3)
    assert row(trace(big), trace(other)).values == pytest.approx((X[1, 0, 0, 0], X[1, 0, 0, 0] + 0.01), rel=1e-3)


def test_each_position_of_a_sequence_is_a_unit():
    other = X.copy()
    other[:, 2] += 0.5
    found = distance(other, X, sequence=True)
    assert len(found.positions) == 3 and found.positions[:2] == (0, 0) and found.positions[2] > 0.1


def test_a_scalar_and_nothing_have_distances():
    assert distance(np.float32(2.0), np.asarray(1.0)).relative == 1
    empty = np.zeros((0, 3), np.float32)
    assert distance(empty, empty).relative == 0


def test_zeros_are_not_held_to_nothing():
    reference = np.zeros((2, 4), np.float32)
    reference[0] = 1
    other = reference.copy()
    other[1, 0] = 1e-8
    assert distance(other, reference).relative == pytest.approx(1e-4)


def test_nan_is_counted_and_is_never_right():
    other = X.copy()
    other[0, 1, 2, 3] = np.nan
    other[1, 0, 0, 0] = np.inf
    found = row(trace(X), trace(other))
    assert found.state == "failed" and found.relative == np.inf
    assert found.note == "NaN 0 in A and 1 in B, infinite 0 in A and 1 in B, first at (0, 1, 2, 3)"
    assert row(trace(other), trace(other)).state == "failed"  # NaN beside NaN shows nothing


def test_additive_masks_hide_with_any_number():
    mask = np.triu(np.ones((1, 1, 4, 4), np.float32), 1)
    low = [mask * np.finfo(np.float32).min, mask * -1e4, np.where(mask == 1, -np.inf, 0).astype(np.float32)]
    for a in low:
        for b in low:
            found = row(trace(a), trace(b))
            assert found.state == "pass" and found.note == ""
    wrong = low[0].copy()
    wrong[..., 0, 1] = 0
    assert row(trace(low[0]), trace(wrong)).state == "failed"


@pytest.mark.parametrize(("dtype", "right", "wrong"), [
    (np.float64, 1e-13, 1e-9), (np.float32, 2e-5, 2e-4), (np.float16, 5e-3, 5e-2), (BFLOAT16, 5e-2, 0.5),
])  # fmt: skip
def test_limits_follow_the_precision(dtype, right, wrong):
    a = X.astype(dtype)
    assert row(trace(a), trace((a.astype(np.float64) * (1 + right)).astype(dtype))).state == "pass"
    found = row(trace(a), trace((a.astype(np.float64) * (1 + wrong)).astype(dtype)))
    assert found.state == "failed" and found.limit == BLIND * BASE[np.dtype(dtype).name]


def test_the_coarser_precision_decides():
    assert row(trace(X), trace(X.astype(BFLOAT16))).limit == BLIND * BASE["bfloat16"]


def test_whole_numbers_are_equal_or_wrong():
    ids = np.arange(6).reshape(2, 3)
    assert row(trace(ids), trace(ids.astype(np.int32))).state == "pass"
    assert row(trace(ids), trace(ids + 1)).state == "failed"


def exactly(value, exact):
    made = trace(value)
    made.add("out/fc", value, exact)
    return made


def test_with_float64_on_one_side_the_other_is_held_to_that():
    exact = X.astype(np.float64)
    own = X * np.float32(1 + 1e-5)  # the reference's own error
    for a, b in ((exactly(own, exact), trace(X)), (trace(X), exactly(own, exact))):
        found = row(a, b)
        assert found.relative < 1e-7 and found.own == pytest.approx(1e-5, rel=0.1)
        assert found.limit == pytest.approx(8 * found.own)
    assert row(trace(exact), trace(X)).own == 0 and row(trace(exact), trace(X)).limit == BLIND * BASE["float32"]
    assert compare_traces(trace(exact), trace(X)).three_way == 1


def test_a_float64_of_another_computation_is_left_out_and_said():
    found = row(exactly(X, X * 1.5), trace(X * np.float32(1.1)))
    assert found.state == "failed" and found.own is None and "another computation" in found.note
    assert row(exactly(X, X * 1.5), trace(X)).state == "pass"


def test_where_the_reference_is_all_rounding_nothing_is_shown_and_that_is_said():
    half = X.astype(BFLOAT16)
    found = row(exactly(half, X.astype(np.float64) * 1.5), trace(half))
    assert found.state == "pass" and found.note.startswith("shows nothing")


def test_a_float32_reference_says_nothing_of_bfloat16():
    found = row(exactly(X, X.astype(np.float64)), trace(X.astype(BFLOAT16)))
    assert found.own is not None and found.limit == BLIND * BASE["bfloat16"]


def test_the_limit_that_is_given_takes_the_place_of_the_table():
    assert row(trace(X), trace(X * np.float32(1.01)), limit=0.1).state == "pass"
    assert row(trace(X), trace(X * np.float32(1.01)), limit=1e-3).limit == 1e-3
    ids = np.arange(6).reshape(2, 3)
    assert row(trace(ids), trace(ids + 1), limit=10.0).state == "failed"


def test_a_layout_is_put_right_and_a_missing_one_is_proposed():
    nhwc = trace(X.transpose(0, 2, 3, 1))
    assert row(trace(X), nhwc, ["fc=fc@NCHW->NHWC"]).state == "pass"
    found = row(trace(X), nhwc)
    assert found.state == "failed" and "another layout? --map 'fc=fc@NCHW->NHWC'" in found.note
    exact = exactly(X, X.astype(np.float64))
    assert row(exact, nhwc, ["fc=fc@NCHW->NHWC"]).own == 0
    square = trace(X[:, :, :3, :3])
    assert row(square, trace(X[:, :, :3, :3].swapaxes(2, 3))).state == "failed"


def test_a_small_gradient_is_held_to_the_largest():
    big, noise = X[0, 0], np.full((4, 5), 1e-9, np.float32)
    a = trace(X, **{"grad/w": big, "grad/k": noise})
    b = trace(X, **{"grad/w": big, "grad/k": -noise})
    assert compare_traces(a, b).ok
    assert not compare_traces(a, trace(X, **{"grad/w": -big, "grad/k": noise})).ok


def test_the_way_back_has_a_first_divergence_of_its_own():
    arrays = {"back/a": X, "back/b": X, "grad/w": X}
    a = trace(X, **arrays, backward=["back/b", "back/a"])
    b = trace(X, **{**arrays, "back/a": X * 2, "grad/w": X * 2}, backward=["back/b", "back/a"])
    found = compare_traces(a, b)
    assert found.first_divergence is None and found.first_backward.name == "back/a" and not found.ok
    assert "every module agrees on the way forward" in found.headline()
    own = compare_traces(a, trace(X, **{**arrays, "grad/w": X * 2}, backward=["back/b", "back/a"]))
    assert own.first_backward.name == "grad/w" and "own backward" in own.first_backward.says


def test_gradients_of_two_losses_are_not_compared_and_that_is_noted():
    a = trace(X, **{"grad/w": X, "back/fc": X, "loss": np.float32(1)})
    a.about["loss"] = "the scalar that the module makes"
    found = compare_traces(a, trace(X, **{"grad/w": X * 2, "back/fc": X * 2}))
    assert found.ok and [row.kind for row in found.rows] == ["out"]
    assert found.notes == ("gradients are of two losses, and were not compared: the scalar that the module makes; "
                           "that of a reference",)  # fmt: skip


def test_a_course_over_the_positions_is_said():
    ids, out = np.zeros((2, 3), np.int64), X[:, :, 0]
    other = out.copy()
    other[:, 1:] += 0.1
    found = compare_traces(trace(out, ids=ids), trace(other, ids=ids))
    assert "right at position 0 and wrong later" in found.first_divergence.says
    assert "right at position" not in compare_traces(trace(out), trace(other)).first_divergence.says


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_whole_numbers_that_float64_cannot_tell_apart_differ(dtype):
    a, b = (np.array([[1, 2**53 + n]], dtype) for n in (1, 0))
    found = row(trace(a), trace(b))
    assert found.state == "failed" and found.apart.error == 1
    assert row(trace(a), trace(a)).state == "pass"


@pytest.mark.parametrize(
    "a", [-20_000.0, [-20_000.0, -1e6], [[-20_000.0, -20_000.0]], [[0, -20_000, -30_000, -40_000.0]]]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_values_far_below_0_are_no_mask(a, dtype):
    """A sum of log-probabilities, say: two of them are not the same because both would hide something."""
    a = np.asarray(a, dtype)
    assert row(trace(a), trace((a * 1.5).astype(dtype))).state == "failed"
