"""Recompute, batches, precision, faults: each verdict is on the numbers, and turns red when they are off."""

from __future__ import annotations

import pytest

from mindport.tuning import scaled_rates
from mindport.tuning.batching import Batching
from mindport.tuning.faults import PLANTED, Faults
from mindport.tuning.precision import LEVELS, Precision
from mindport.tuning.recompute import Recompute
from tests.tuning.studies import figure, states

WAYS = [figure(f"{mode}, {way}") for mode in ("PyNative", "Graph") for way in ("kept", "computed again")]
OFF = {"loss_error": 0.1, "gradient_error": 0.5}


def recompute(*ways):
    return Recompute("w", tuple(ways))


def test_recompute_compares_time_and_memory_in_each_mode():
    found = recompute(WAYS[0], figure("again", 15, memory=50.0), *WAYS[2:])
    assert found.ok and "PyNative: time × 1.50, memory × 0.50" in found.headline()


def test_recompute_that_changes_numbers_turns_red():
    found = recompute(*WAYS[:3], figure("again", **OFF))
    assert not found.ok and states(found) == ["failed"] and "NOT THE SAME" in found.headline()


def test_pieces_must_add_up_to_the_whole():
    whole = figure("4 at once", gradient_error=None)
    good = Batching("w", 512, (whole, figure("2 × 2", 20, memory=50.0)))
    assert good.ok and "2 × 2: 0.50 × the tokens/s, 0.50 × the memory" in good.headline()
    assert states(Batching("w", 512, (whole, figure("2 × 2", **OFF)))) == ["failed"]


def test_the_linear_rule():
    rows = scaled_rates(3e-4, 8).rows
    assert rows[2] == (4, 32, "0.0012", "1/4", "0.50")


def precision(**changes):
    first, *others = LEVELS
    levels = (
        figure(first, loss_error=None),
        *(figure(name, 20, loss_error=1e-3, gradient_error=1e-2) for name in others),
    )
    return Precision("w", (*levels[:-1], figure("O3", 20, **changes)), "refused: no kernel", ("LayerNorm",), ("Dense",))


def test_half_precision_is_held_to_what_half_precision_can():
    found = precision(loss_error=1e-3)
    assert found.ok and states(found) == ["verified", "not verified"] and "O3 × 2.00" in found.headline()
    assert states(precision(loss_error=0.02))[0] == "failed"
    assert not precision(loss_error=float("nan")).ok


@pytest.mark.parametrize("missed", [None, *PLANTED])
def test_every_planted_fault_must_be_caught(missed):
    steps = [figure(name, **({} if name == missed else OFF)) for name in PLANTED]
    found = Faults("w", (figure("right"), *steps))
    assert found.ok is (missed is None)
    assert [row[-1] for row in found.tables()[0].rows].count("missed") == (missed is not None)
