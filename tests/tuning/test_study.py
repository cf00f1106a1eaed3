"""Figures are read off a race; NaN and what is too far off are not the same computation."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import mindport
from mindport.tuning.case import Case, Memory, Timing
from mindport.tuning.numerics import Agreement
from mindport.tuning.study import GRADIENT_LIMIT, KERNELS, LOSS_LIMIT, absent, figures, milliseconds
from tests.tuning.studies import figure

MISSING = math.nan


def case(*errors: tuple[str, str, float], **fields) -> Case:
    who = ("plain", *dict.fromkeys(peer for peer, _, _ in errors))
    return Case(
        "c", {name: Timing(0.02, 0.01, 0.015, 0.025, 0.03) for name in who}, {}, 1.0, "u",
        memory={name: Memory(100.0, 130.0) for name in who},
        numerics=tuple(Agreement(peer, value, error, 1e-5) for peer, value, error in errors),
        about={name: {"kernels": [["gelu", "cpu", "C++"]], "first seconds": 2.0} for name in who}, **fields,
    )  # fmt: skip


def test_figures_hold_the_worst_of_each_kind():
    plain, fused = figures(case(("fused", "loss 1", 1e-8), ("fused", "loss 2", 3e-7), ("fused", "gradient of a", 2e-6)))
    assert (fused.loss_error, fused.gradient_error, fused.memory, fused.kernels) == (3e-7, 2e-6, 30, {"gelu": "cpu"})
    assert plain.loss_error is None and plain.same


def test_a_contestant_without_gradients_has_none_to_compare():
    raced = case(("torch", "loss 1", 1e-8), ("torch", "gradient of a", MISSING), ("torn", "gradient of a", MISSING))
    raced.about["torch"].pop("first seconds")  # a peer
    _, torch, torn = figures(raced)
    assert torch.gradient_error is None and torch.same
    assert not torn.same  # one of ours that lacks a gradient is no peer


def test_later_losses_do_not_count():
    assert figures(case(("fused", "loss 3", 1e-8), ("fused", "loss 4", 0.1)))[1].same
    assert not figures(case(("fused", "loss 3", 0.1)))[1].same


@pytest.mark.parametrize(
    "changes",
    [{"loss_error": 2 * LOSS_LIMIT}, {"gradient_error": 2 * GRADIENT_LIMIT}, {"loss_error": math.nan},
     {"gradient_error": math.nan}],
)  # fmt: skip
def test_what_is_off_is_not_the_same(changes):
    assert figure("right").same
    assert not figure("wrong", **changes).same


def test_the_reason_of_an_absent_one_is_one_line():
    why = "BackendError: attention, CPU: plain operators\n  File x\nTraceback"
    assert absent(case(absent={"+ fused": why})) == {"+ fused": "attention, CPU: plain operators"}


def test_every_kernel_of_the_model_can_be_switched():
    sources = (Path(mindport.__file__).parent / "model").rglob("*.py")
    found = {name for path in sources for name in re.findall(r'select\(\s*"(\w+)"', path.read_text())}
    assert found == {*KERNELS, "cross_entropy_share"}  # the latter only where ranks share a vocabulary: no rung has any


def test_times_are_never_powers_of_ten():
    assert [milliseconds(s) for s in (2.5, 0.1234, 0.0123, 0.000123)] == ["2,500", "123", "12.3", "0.123"]
