"""Layouts: read strictly, and held to the model before anything is written."""

from __future__ import annotations

import pytest

from mindport.errors import ConfigError, UsageError
from mindport.mindformers import Layout, Recipe, parse_layout
from tests.config.test_targets import LLAMA


@pytest.mark.parametrize(
    ("text", "layout", "devices"),
    [
        ("dp1,tp2,pp1", Layout(1, 2, 1), 2),
        ("tp4", Layout(1, 4, 1), 4),
        ("pp3,dp2", Layout(2, 1, 3), 6),
        ("dp16,tp8,pp4", Layout(16, 8, 4), 512),
        ("cp2,zero1,sp,tp2,recompute-full,mb8", Layout(1, 2, 1, 2, 1, True, "full", 8), 4),
        ("zero0,recompute-none,mb1", Layout(), 1),
        ("v3,pp2,mb4", Layout(pp=2, interleave=3, micro_batches=4), 2),
    ],
)
def test_degrees_in_any_order(text: str, layout: Layout, devices: int) -> None:
    assert (parse_layout(text), layout.devices) == (layout, devices)
    assert parse_layout(str(layout)) == layout


@pytest.mark.parametrize("text", ["", "dp", "dp0", "dp-1", "dp1.5", "dp1 tp2", "dp1,dp2", "ep2", "dp1,", "dp٢", "2",
                                  "zero4", "zero٢", "sp,sp", "sp1", "recompute", "recompute-some", "mb0",
                                  "v0", "v1,v2", "vv2"])  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a layout"):
        parse_layout(text)


@pytest.mark.parametrize(("text", "reason"), [("tp3", "4 attention heads"), ("tp4", "2 key/value heads"),
                                              ("pp2", "1 layers"), ("v2", "there is one"),
                                              ("pp2,v2,mb2", "no equal chunks")])  # fmt: skip
def test_a_model_that_does_not_divide_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_layout(text).check(LLAMA)


def test_a_model_that_divides_passes() -> None:
    assert all(rule.ok for rule in parse_layout("dp7").check(LLAMA))


def test_a_sample_is_at_most_the_context() -> None:
    assert (Recipe().context(64), Recipe(seq_length=16).context(64)) == (64, 16)
    for length in (65, 0):
        with pytest.raises(UsageError, match="1 to 64"):
            Recipe(seq_length=length).context(64)


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch_size", 0), ("steps", -1), ("learning_rate", float("nan")), ("learning_rate", 0.0), ("eps", 0),
     ("lr_end", -1e-6), ("warmup_ratio", 1.0), ("weight_decay", float("inf")), ("betas", (0.9, 1.0)), ("seed", -1)],
)  # fmt: skip
def test_a_recipe_that_trains_nothing_is_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"trains nothing(.|\\n)*{name}"):
        Recipe(**{name: value})


@pytest.mark.parametrize("text", ["dp1", "dp2", "tp3", "dp2,tp2", "tp2,pp4,cp2"])
def test_degrees_are_the_short_of_a_layout(text):
    assert parse_layout(text).degrees == text
    assert parse_layout(f"{text},zero1,sp").degrees == text
