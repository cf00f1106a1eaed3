"""The comparer itself: each kind of difference turns it red, and the right value is named."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from mindport.errors import FileError
from mindport.parity import metrics
from mindport.parity.compare import compare
from mindport.parity.ours import observe
from mindport.parity.trace import read_trace


@pytest.fixture(scope="module")
def pair(case):
    found = case("llama-untied-llama3")
    reference = read_trace(found.trace)
    return reference, observe(found.converted, reference)


def changed(trace, name, change):
    new = copy.copy(trace)
    new.about, new.arrays = dict(trace.about), {**trace.arrays, name: change(trace[name].copy())}
    return new


def nudge(size, at=...):
    def change(array):
        array[at] += np.float32(size * np.abs(array).max())
        return array

    return change


def test_they_agree(pair):
    assert compare(*pair).ok


@pytest.mark.parametrize("path", ["embed", "blocks.0.attn.context", "blocks.1.attn.k", "blocks.2", "logits"])
def test_a_cell_that_is_off_is_named(pair, path):
    reference, ours = pair
    found = compare(reference, changed(ours, f"local/{path}", nudge(5e-5)))
    assert not found.ok
    assert (found.first_divergence.path, found.first_divergence.local) == (path, True)
    assert found.first_divergence.foreign in found.headline()


def test_embeddings_are_a_rung_of_their_own(pair):
    reference, ours = pair
    for ours_now, state in ((ours, "verified"), (changed(ours, "local/embed", nudge(5e-5)), "failed")):
        (line,) = (p for p in compare(reference, ours_now).properties() if p.name == "embeddings agree")
        assert line.state == state and "at embed" in line.figure


def test_an_error_within_the_limit_passes(pair):
    reference, ours = pair
    assert compare(reference, changed(ours, "local/blocks.1.attn.k", nudge(2e-6))).ok


def test_the_first_of_several_is_named(pair):
    reference, ours = pair
    ours = changed(changed(ours, "local/blocks.2.norm1", nudge(1.0)), "local/blocks.1.mlp.up", nudge(1e-3))
    assert compare(reference, ours).first_divergence.path == "blocks.1.mlp.up"


def test_an_inherited_error_is_not_laid_at_the_cells_door(pair):
    reference, ours = pair
    found = compare(reference, changed(ours, "out/blocks.1", nudge(1e-3)))
    assert (found.first_divergence.path, found.first_divergence.local) == ("blocks.1", False)


def test_a_single_number_is_enough(pair):
    reference, ours = pair
    found = compare(reference, changed(ours, "local/blocks.1.mlp.hidden", nudge(1e-3, (1, 30, 2))))
    assert found.first_divergence.path == "blocks.1.mlp.hidden"


def test_something_that_is_not_finite(pair):
    reference, ours = pair
    found = compare(reference, changed(ours, "local/blocks.1.norm2", nudge(np.nan, (0, 0, 0))))
    assert found.first_divergence.path == "blocks.1.norm2"
    found.as_dict(), found.text()


def test_another_shape(pair):
    reference, ours = pair
    found = compare(reference, changed(ours, "local/blocks.1.attn.q", lambda array: array[:, :, :-1]))
    assert found.first_divergence.path == "blocks.1.attn.q"
    assert "shape" in found.headline()


@pytest.mark.parametrize("name", ["out/logits", "graph/logits"])
def test_logits_of_either_mode(pair, name):
    reference, ours = pair
    assert not compare(reference, changed(ours, name, nudge(1e-3, (0, 5, 3)))).logits.ok


@pytest.mark.parametrize("mode", ["grad/", "graph/grad/"])
def test_one_gradient_of_either_mode(pair, mode):
    reference, ours = pair
    found = compare(reference, changed(ours, f"{mode}blocks.1.attn.k.weight", nudge(1e-3, (2, 2))))
    assert [row.parameter for row in found.gradients if not row.ok] == ["blocks.1.attn.k.weight"]
    assert not found.ok


def test_one_token_of_the_continuation(pair):
    reference, ours = pair

    def other(array):
        array[1, -1] += 1
        return array

    found = compare(reference, changed(ours, "greedy", other))
    assert not found.ok and not found.greedy_equal
    assert "every module is right" in found.headline()


def test_the_loss(pair):
    reference, ours = pair
    new = changed(ours, "greedy", lambda array: array)
    new.about["loss"] += 1e-3
    assert not compare(reference, new).loss_ok


def test_errors_are_measured_against_the_position_they_are_at():
    reference = np.ones((1, 3, 4))
    reference[0, 1] = 1e4
    ours = reference.copy()
    ours[0, 2, 3] += 1e-3  # small beside 1e4, not beside 1
    assert metrics.relative(ours, reference) == pytest.approx(1e-3)
    assert metrics.by_position(ours, reference) == pytest.approx((0, 0, 1e-3))


def test_a_module_that_the_reference_never_showed_stops(pair):
    """A green verdict must not come from a module that was not looked at."""
    reference, ours = pair
    blind = copy.copy(reference)
    order = [path for path in reference.about["order"] if path != "blocks.1.mlp.hidden"]
    blind.about = {**reference.about, "order": order}
    with pytest.raises(FileError, match=r"does not show every module[\s\S]*blocks\.1\.mlp\.hidden"):
        compare(blind, ours)


def test_the_card_names_the_device_that_ours_ran_on(pair):
    reference, ours = pair
    elsewhere = copy.copy(ours)
    elsewhere.about = {**ours.about, "device": "Ascend"}
    assert {line.backend for line in compare(reference, elsewhere).properties()} == {"Ascend"}
    assert {line.backend for line in compare(reference, ours).properties()} == {"CPU"}


def test_the_value_nearest_to_its_limit_may_be_one_of_the_whole_model(pair):
    reference, ours = pair
    assert 0 < compare(reference, ours).nearest[1] < compare(reference, ours).nearest[2]
    limit = next(row.whole_limit for row in compare(reference, ours).rows if row.path == "blocks.1")
    close = changed(ours, "out/blocks.1", lambda array: reference["out/blocks.1"] * np.float32(1 + 0.95 * limit))
    which, error, allowed = compare(reference, close).nearest
    assert which == "blocks.1 in the whole model" and allowed == limit and 0.9 * limit < error <= limit
    assert which in next(p.figure for p in compare(reference, close).properties() if p.name.startswith("every module"))


def test_a_continuation_of_one_token_proves_little_and_says_so(pair):
    reference, ours = pair
    dull = lambda array: np.full_like(array, 7)  # noqa: E731
    found = compare(changed(reference, "greedy", dull), changed(ours, "greedy", dull))
    line = next(line for line in found.properties() if line.name.startswith("greedy"))
    assert line.state == "verified" and line.figure.endswith("equal; all one token: proves little")
    varied = changed(reference, "greedy", lambda array: np.arange(array.size, dtype=array.dtype).reshape(array.shape))
    assert "one token" not in str(compare(varied, changed(ours, "greedy", lambda _: varied["greedy"])).properties())


def test_the_report_holds_the_table_of_the_logits(pair):
    found = compare(*pair)
    assert found.logits_table() in found.tables()
