"""Three spellings, one meaning; equal to what transformers itself understands."""

from __future__ import annotations

import pytest

from mindport.config.rope import join_rope, read_rope

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}


def rope(**raw):
    return read_rope(join_rope({"max_position_embeddings": 64, **raw}))


@pytest.mark.parametrize("kind", ["type", "rope_type"])
def test_old_and_new_spelling_agree(kind):
    scaling = {kind: "llama3", **LLAMA3}
    old = rope(rope_theta=5e5, rope_scaling=scaling)
    new = rope(rope_parameters={"rope_theta": 5e5, **scaling})
    assert old == new
    assert (old.rope_type, old.factor, old.original_max_position_embeddings) == ("llama3", 8.0, 32)


def test_both_names_of_the_type_may_stand_if_they_agree():
    assert rope(rope_scaling={"type": "linear", "rope_type": "linear", "factor": 2}).rope_type == "linear"
    with pytest.raises(ValueError, match="one value of rope_type"):
        rope(rope_scaling={"type": "linear", "rope_type": "yarn", "factor": 2})


def test_new_spelling_without_top_level_theta_keeps_its_theta():
    assert rope(rope_parameters={"rope_type": "default", "rope_theta": 1e6}).rope_theta == 1e6


def test_no_spelling_at_all_is_none():
    assert join_rope({"max_position_embeddings": 64, "rope_scaling": None}) is None


@pytest.mark.parametrize("kind", ["yarn", "llama3", "dynamic"])
def test_original_context_falls_back_to_the_context(kind):
    extra = {key: value for key, value in LLAMA3.items() if key != "original_max_position_embeddings"}
    keep = extra if kind == "llama3" else {"factor": 2.0}
    assert rope(rope_scaling={"type": kind, **keep}).original_max_position_embeddings == 64


def test_yarn_factor_follows_from_the_two_contexts():
    assert rope(rope_scaling={"type": "yarn", "original_max_position_embeddings": 16}).factor == 4.0


@pytest.mark.parametrize(
    ("scaling", "fragment"),
    [
        ({"type": "llama3", "factor": 8.0}, "low_freq_factor"),
        ({"type": "llama3", **LLAMA3, "low_freq_factor": 4.0}, "low_freq_factor below high_freq_factor"),
        ({"type": "llama3", **LLAMA3, "low_freq_factor": 5.0}, "low_freq_factor below high_freq_factor"),
        ({"type": "yarn", "factor": 2.0, "rope_theta": 1}, "rope_theta above 1"),
        ({"type": "default", "rope_theta": 0.5}, "rope_theta above 1"),
        ("yarn", "as an object"),
        ({"type": "linear", "factor": "2"}, "factor: a positive number"),
        ({"type": "linear", "factor": 2.0, "mscale": 1.0}, "without mscale"),
        ({"type": "default", "spin": 1.0}, "without spin"),
        ({"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 32}, "stretches from the latter"),
        ({"type": "default", "partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"full_attention": {"rope_type": "default"}}, "for all layers alike"),
        ([1, 2], "as an object"),
    ],
)
def test_what_is_refused(scaling, fragment):
    with pytest.raises(ValueError, match=fragment):
        rope(rope_scaling=scaling)


@pytest.mark.parametrize("scaling", [
    None,
    {"type": "linear", "factor": 2.5},
    {"rope_type": "llama3", **LLAMA3},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 16},
    {"rope_type": "dynamic", "factor": 2.0},
])  # fmt: skip
def test_same_reading_as_transformers(scaling):
    """The values that our `Rope` holds are those of the real configuration class."""
    transformers = pytest.importorskip("transformers")
    theirs = transformers.LlamaConfig(max_position_embeddings=64, rope_theta=5e4, rope_scaling=scaling).rope_parameters
    ours = rope(rope_theta=5e4, rope_scaling=scaling)
    for name, value in theirs.items():
        assert getattr(ours, name, value) == value, name


@pytest.mark.parametrize("joined", ["yarn", 3, None, [], {}, {"rope_type": "default"}, {"rope_type": ["yarn"]}])
def test_what_is_no_rope_at_all_is_a_value_error(joined):
    with pytest.raises(ValueError, match=r"object|rope_theta|rope_type"):
        read_rope(joined)
