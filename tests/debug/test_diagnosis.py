"""Explaining by reproducing: the right cells make the reference's values, wrong ones ours, and no other ones do."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest

from mindport.debug import FAULTS, Fault, diagnose
from mindport.debug.diagnosis import forward, values
from mindport.debug.diagnosis.cause import Cause, Evidence, explained
from mindport.debug.diagnosis.engine import Diagnosis, ranked
from mindport.debug.diagnosis.orders import by_halves, in_heads, same_columns
from mindport.debug.diagnosis.site import Site, weights_of
from mindport.debug.faultlab import BUNDLED, homes
from mindport.parity import metrics
from mindport.parity.compare import compare_forward
from mindport.parity.tiny import MODELS


@pytest.fixture(scope="module")
def clean(ground):
    """name → what a comparison of the right model sees, made once."""
    made: dict[str, Evidence] = {}

    def get(name: str) -> Evidence:
        if name not in made:
            made[name] = ground(name).compare(ground(name).converted)
        return made[name]

    return get


def site(evidence: Evidence, path: str) -> Site:
    row = next(row for row in evidence.rows if row.path == path)
    return Site(evidence, row, inherited=False, weights=weights_of(evidence))


def spoiled(evidence: Evidence, path: str, change) -> Evidence:
    """The same comparison where ours has another value, alone and in the whole model."""
    ours = copy.copy(evidence.ours)
    ours.arrays = dict(ours.arrays)
    for name in (f"local/{path}", f"out/{path}"):
        ours.arrays[name] = change(ours.arrays[name]).astype(np.float32)
    return dataclasses.replace(evidence, ours=ours, rows=compare_forward(evidence.reference, ours))


@pytest.mark.parametrize("name", [*BUNDLED, *MODELS])
def test_the_cells_in_numpy_are_the_references(clean, name):
    """What a hypothesis changes one thing of is right as it stands, in every family."""
    evidence = clean(name)
    for layer in (0, 2):
        here = site(evidence, f"blocks.{layer}.attn.context")
        exact = evidence.reference.exact(f"out/{here.path}")
        assert metrics.relative(here.attending(*here.qkv), exact) < 5e-6
        block = site(evidence, f"blocks.{layer}")
        wirings = dict(values.BLOCKS[0].would_be(block))
        usual = f"attention and MLP stand {'side by side' if block.config.parallel_residual else 'one after the other'}"
        assert metrics.relative(wirings[usual], evidence.reference.exact(f"out/{block.path}")) < 1e-5
        hidden = site(evidence, f"blocks.{layer}.mlp.hidden")
        made = dict(values.HIDDEN[0].would_be(hidden))[f"{hidden.config.hidden_act}, not {hidden.config.hidden_act}"]
        assert metrics.relative(made, hidden.right) < 2e-6
    for path in ("embed", "blocks.1.norm1", "blocks.1.attn.k", "norm", "logits"):
        here = site(evidence, path)
        assert metrics.relative(here.made_by(here.weight(), here.bias()), here.right) < 1e-5


@pytest.mark.parametrize(
    "name", ["theta", "scale_missing", "no_mask", "rope_pairs", "heads_merged", "gelu", "gate_on_up", "eps",
             "norm_kind", "no_residual", "bias_twice", "random", "dropout", "positions_ahead"],
)  # fmt: skip
def test_no_other_mistake_reproduces_it(grounds, name, tmp_path, monkeypatch):
    """The negative control: without the right hypothesis, no wrong one takes its place."""
    evidence = FAULTS[name].evidence(homes(FAULTS[name], grounds)[0], tmp_path)
    right = FAULTS[name].causes
    assert diagnose(evidence).causes[0].name in right

    def without(tier):
        return tuple(hypothesis for hypothesis in tier if hypothesis.name not in right)

    for kind, tiers in forward.KNOWN.items():
        monkeypatch.setitem(forward.KNOWN, kind, tuple(map(without, tiers)))
    monkeypatch.setattr(values, "ANY", without(values.ANY))
    found = diagnose(evidence)
    assert not found.ok and max(cause.score for cause in found.causes) < 1, found.text()


def rope(**changes):
    return {"config": lambda config: {"rope": dataclasses.replace(config.rope, **changes)}}


def tensor(name, change):
    return {"weights": lambda arrays, config: arrays.update({name: change(arrays[name]).astype(arrays[name].dtype)})}


UNPLANTED = [  # mistakes that no fault of the lab makes
    ("tiny-llama", rope(rope_theta=500000.0), "rope_theta", "500000, not 20000"),
    ("tiny-llama", rope(factor=8.0), "rope_scaling", "by 8, not by 4"),
    ("tiny-llama", {"config": lambda config: {"norm_eps": 3e-5}}, "norm_eps", "3.0e-05, not 1.0e-05"),
    ("tiny-llama", tensor("blocks.2.attn.v.weight", lambda x: np.roll(x, 24, 0)), "rows_moved", "0:24 ← 24:48"),
    ("tiny-llama", tensor("blocks.1.mlp.up.weight", lambda x: x + 1e-3), "stale_weight", "another state"),
    (
        "tiny-llama",
        tensor("blocks.1.mlp.up.weight", lambda x: np.clip(x, -0.01, 0.01)),
        "stale_weight",
        "numbers differ",
    ),
    (
        "tiny-llama",
        tensor("blocks.1.attn.v.weight", lambda x: x.ravel()[::-1].reshape(x.shape)),
        "weight_reordered",
        "another order",
    ),
    ("tiny-llama", tensor("norm.weight", lambda x: np.sort(x)), "weight_reordered", "another order"),
    ("tiny-gpt2", tensor("blocks.3.mlp.down.bias", lambda x: 0 * x), "bias_dropped", "not added"),
    ("tiny-gpt2", tensor("position.weight", lambda x: np.roll(x, -2, 0)), "positions_shifted", "by +2"),
    ("tiny-gpt2", tensor("blocks.2.attn.o.weight", lambda x: 2 * x), "weight_scaled", "multiplied by 2"),
    ("mistral", {"config": lambda config: {"window": (None, 7, 7)}}, "window", "all keys, not 7"),
    ("phi3", {"config": lambda config: {"rotary_dim": 4}}, "rotary_part", "4 dimensions, not 6"),
    ("gemma", tensor("blocks.0.norm1.weight", lambda x: x + 1), "norm_offset", "both the converter and the formula"),
    ("gpt_neox", tensor("norm.weight", lambda x: 0 * x + 1), "norm_weight", "no weight"),
]


@pytest.mark.parametrize(("name", "mistake", "cause", "says"), UNPLANTED)
def test_mistakes_that_the_lab_does_not_plant(ground, name, mistake, cause, says, tmp_path):
    found = diagnose(Fault("mistake", "", "", (), **mistake).evidence(ground(name), tmp_path)).causes
    assert found[0].name == cause and found[0].score == 1 and says in found[0].says, found


def test_a_weight_that_is_nan_is_told_from_an_overflow(ground, tmp_path):
    change = tensor("blocks.1.norm2.weight", lambda x: np.where(np.arange(x.size) == 3, np.nan, x.astype(np.float32)))
    found = diagnose(Fault("mistake", "", "", (), **change).evidence(ground("tiny-llama"), tmp_path)).causes
    assert [cause.name for cause in found[:2]] == ["weight_not_finite", "not_finite"] and found[0].score < 0.5
    assert "1 of 120 numbers of blocks.1.norm2.weight" in found[0].evidence


def noise(x, size=0.1, start=0):
    made = x.copy()
    made[:, start:] += size * np.random.default_rng(0).standard_normal(made[:, start:].shape)
    return made


@pytest.mark.parametrize(
    ("path", "change", "share"),
    [
        ("blocks.1.mlp.hidden", lambda x: np.maximum(x, 0), "%"),  # a ReLU
        ("logits", lambda x: np.where(np.arange(x.shape[1])[:, None] == x.shape[1] - 1, 0, x), "%"),
        ("blocks.1.attn.q", lambda x: np.where(np.arange(x.shape[-1]) % 2, x, 0), "50%"),
    ],
)
def test_zeros_that_nothing_makes_up_for_are_no_dropout(clean, path, change, share):
    found = diagnose(spoiled(clean("tiny-gpt2"), path, change)).causes
    assert [cause.name for cause in found] == ["partly_zero"] and share in found[0].says


def test_what_is_nearly_a_multiple_is_not_told_as_one(clean):
    found = diagnose(spoiled(clean("tiny-gpt2"), "blocks.1.mlp.hidden", lambda x: np.clip(x, -0.05, 0.05))).causes
    assert found and found[0].score < 0.5, found


@pytest.mark.parametrize(
    ("path", "change", "name", "says"),
    [
        ("blocks.0.attn.context", lambda x: noise(x, start=5), "rotary", "position 0 is right"),
        ("blocks.0.attn.context", lambda x: np.where(np.arange(x.shape[1])[:, None] + 1 < x.shape[1], noise(x), x),
         "mask", "the last position"),
        ("blocks.1.mlp.hidden", lambda x: noise(x, 1e-4), "gelu", "everything before it is right"),
        ("blocks.2.norm2", lambda x: noise(x, 1e-3), "norm", "everything before it is right"),
        ("blocks.2.attn.k", lambda x: noise(x), "k_heads", "everything before it is right"),
        ("blocks.2.attn.v", lambda x: noise(x), "cell", "alone, on the reference's own input"),
        ("blocks.1.mlp.down", lambda x: np.where(x > x.mean(), np.nan, x), "not_finite", "numbers are NaN or infinite"),
    ],
)  # fmt: skip
def test_signs_speak_where_nothing_is_reproduced(clean, path, change, name, says):
    found = diagnose(spoiled(clean("tiny-llama"), path, change)).causes
    assert found[0].name == name and found[0].where == path and says in found[0].evidence, found
    assert found[0].score < 0.5


def test_a_loss_of_ln_v_says_that_nothing_was_loaded(clean):
    evidence = spoiled(clean("tiny-llama"), "logits", lambda x: noise(0 * x))
    found = diagnose(spoiled(evidence, "embed", lambda x: noise(0 * x, 5))).causes
    assert found[0].name == "nothing_loaded" and "ln V 6.644" in found[0].evidence, found


def test_a_growing_error_of_attention_is_a_scale_by_layer(clean):
    evidence = clean("tiny-llama")
    for layer in (1, 2, 3):
        evidence = spoiled(evidence, f"blocks.{layer}.attn.context", lambda x, size=layer: noise(x, 0.1 * 4**size, 1))
    assert "layer_scale" in {cause.name for cause in diagnose(evidence).causes}


def test_another_shape_is_said(clean):
    evidence = spoiled(clean("tiny-llama"), "blocks.0.attn.q", lambda x: x[..., :-2])
    assert [cause.name for cause in diagnose(evidence).causes] == ["shape"]


def test_without_the_source_the_code_is_explained_all_the_same(grounds, tmp_path):
    evidence = FAULTS["post_norm"].evidence(homes(FAULTS["post_norm"], grounds)[0], tmp_path)
    reference = copy.copy(evidence.reference)
    reference.about = {**reference.about, "source": {**reference.about["source"], "path": str(tmp_path / "gone")}}
    assert diagnose(dataclasses.replace(evidence, reference=reference)).causes[0].name == "residual"
    nowhere = dataclasses.replace(evidence, reference=reference, directory=None)
    assert [cause.name for cause in diagnose(nowhere).causes] == ["cell"]


def test_nothing_known_has_no_cause():
    assert diagnose(Evidence()).ok


RIGHT = np.random.default_rng(0).standard_normal((2, 5, 3))


def test_what_is_explained():
    ours, half = RIGHT + 1, RIGHT + 0.6
    assert explained(ours, RIGHT, ours + 1e-9) == 1
    assert 0 < explained(ours, RIGHT, half) < 1
    assert explained(ours, RIGHT, RIGHT) == 0  # a mistake that changes nothing
    assert explained(ours, RIGHT, RIGHT - 1) == 0
    assert explained(ours, RIGHT, ours[..., :2]) == explained(RIGHT, RIGHT, ours) == 0
    assert explained(np.full_like(ours, np.nan), RIGHT, ours) == 0


def test_the_best_comes_first_and_each_name_once():
    scores = (("a", 0.4), ("b", 1.0), ("a", 0.9), ("c", 1.0))
    causes = [Cause(name, "says", "embed", "seen", "do", score) for name, score in scores]
    assert [(cause.name, cause.score) for cause in ranked(causes)] == [("b", 1.0), ("c", 1.0), ("a", 0.9)]
    found = Diagnosis(ranked(causes))
    assert found.headline() == "embed: says (seen)" and len(found.tables()[0].rows) == 3


def test_orders_and_where_columns_come_from():
    meta = np.array(["x0", "y0", "x1", "y1", "x2", "y2"])
    assert meta[by_halves(6, 1)].tolist() == ["x0", "x1", "x2", "y0", "y1", "y2"]
    q, k, v = in_heads(12, 2, 3)
    assert q.tolist() == [0, 1, 6, 7] and k.tolist() == [2, 3, 8, 9] and v.tolist() == [4, 5, 10, 11]
    pool = np.random.default_rng(1).standard_normal((4, 7, 30))
    order = np.random.default_rng(2).permutation(30)[:20]
    assert same_columns(pool[..., order], pool).tolist() == order.tolist()
    assert same_columns(noise(pool[..., order]), pool) is None
