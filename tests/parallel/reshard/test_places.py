"""The arithmetic of places: every element on as many ranks as there are copies, whatever the layout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.config import ModelConfig, split
from mindport.config.targets import TARGETS
from mindport.errors import MappingError
from mindport.mindformers import Layout
from mindport.mindformers.stages import split as split_layers
from mindport.parallel.reshard import Entry, Grid, Place, part, place
from mindport.parallel.reshard.entries import weight_entries
from mindport.parallel.reshard.places import device_layout, grid, holders, replicas
from mindport.ranks import Ranks
from mindport.weights.plan import table
from tests.config.test_targets import BIASED, GPT2, LLAMA, QWEN3

DEGREES = st.integers(1, 4)


@st.composite
def placed(draw: st.DrawFn) -> tuple[Entry, Place, Grid]:
    """An array whose axis divides, somewhere."""
    zero, copies = draw(st.sampled_from([0, 1, 3])), draw(DEGREES)
    layout = Layout(dp=copies, tp=draw(DEGREES), pp=draw(DEGREES), zero=zero)
    axis = draw(st.sampled_from([None, 0, 1]))
    shape = [draw(st.integers(1, 12)), draw(st.integers(1, 12))]
    if axis is not None:
        shape[axis] *= layout.tp
    home = draw(st.sampled_from(["first", "last", "ends", "all", 0, 5]))
    entry = Entry("x", "F32", tuple(shape), axis, home, draw(st.sampled_from(["weight", "mean", "other"])))
    return entry, place(entry, layout, split_layers(6, layout.pp), whole_vocabulary=False, threshold=0), grid(layout)


@given(placed())
def test_every_element_is_on_every_stage_equally_often(case: tuple[Entry, Place, Grid]) -> None:
    entry, at, over = case
    counts = np.zeros((over.pp, *entry.shape), int)
    for rank in holders(at, over):
        cut = part(entry, at, over, rank)
        assert cut is not None
        counts[(rank // over.stage, *cut)] += 1
    assert set(np.unique(counts[list(at.stages)])) == {replicas(at.axis, over) // at.shards}
    assert not np.delete(counts, list(at.stages), 0).any()


@given(placed())
def test_what_is_cut_for_the_copies_follows_the_kind(case: tuple[Entry, Place, Grid]) -> None:
    entry, at, over = case
    if entry.kind == "other" or over.copies == 1:
        assert at.shards == 1
    assert device_layout(entry, at, over)[1:] == ((0, 0) if at.shards == 1 else
                                                  (over.tp if at.axis is not None else 1, at.shards))  # fmt: skip


def test_zero_is_by_kind_and_size() -> None:
    weight, mean = (Entry("w", "F32", (128, 128), 0, "first", kind) for kind in ("weight", "mean"))
    shards = {zero: [place(entry, Layout(dp=2, tp=2, zero=zero), (1,), whole_vocabulary=False, threshold=64).shards
                     for entry in (weight, mean)] for zero in range(4)}  # fmt: skip
    assert shards == {0: [1, 1], 1: [1, 2], 2: [1, 2], 3: [2, 2]}
    assert place(weight, Layout(dp=2, zero=3), (1,), whole_vocabulary=False, threshold=65).shards == 1


@pytest.mark.parametrize(
    ("target", "config"),
    [("mindspore", GPT2), ("mindspore", QWEN3), ("mindformers-llama", LLAMA), ("mindformers-llama-concat", BIASED),
     ("mindformers-mcore", BIASED), ("mindformers-mcore", QWEN3), ("mindformers-gpt2", GPT2)],
)  # fmt: skip
def test_a_share_of_a_tensor_is_the_tensor_of_shares(target: str, config: ModelConfig) -> None:
    """What a rank of MindSpore Transformers computes with: its own heads, fused, interleaved or transposed."""
    entries = weight_entries(target, config)
    narrow = replace(config, num_key_value_heads=config.num_key_value_heads // 2)
    random = np.random.default_rng(0)
    for step in table(TARGETS[target].dialect, config).steps:
        hub = [random.standard_normal(shape) for shape in step.shapes]
        whole, entry = step.layout.to_foreign(hub), entries[step.foreign]
        fuse = next(step.layout for step in table(TARGETS[target].dialect, narrow).steps if step.foreign == entry.name)
        for rank in range(2):
            cuts = [split.part(name, config, Ranks(tp=2, rank=rank)) for name in step.hub]
            meant = fuse.to_foreign([x[cut] for x, cut in zip(hub, cuts, strict=True)])
            at = place(entry, Layout(tp=2), (1,), whole_vocabulary=False, threshold=64)
            cut = part(entry, at, Grid(1, 2, 1), rank)
            assert cut is not None and np.array_equal(whole[cut], meant), entry


def test_a_tensor_of_stacked_parts_is_refused() -> None:
    dialect = replace(TARGETS["mindformers-llama-concat"].dialect, rows=tuple(
        replace(row, layout="stack") if row.layout == "interleave" else row
        for row in TARGETS["mindformers-llama-concat"].dialect.rows
    ))  # fmt: skip
    target = replace(TARGETS["mindformers-llama-concat"], dialect=dialect)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TARGETS, "stacked", target)
        with pytest.raises(MappingError, match="equal shares"):
            weight_entries("stacked", LLAMA)
