"""A model split over ranks: its parts make up the whole, and four processes compute what one does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.config.schema import shapes
from mindport.config.split import axes, axis, check_split, part
from mindport.errors import ConfigError, MappingError
from mindport.model import GPT
from mindport.parallel.launch import call
from mindport.ranks import ALONE, Ranks
from tests.weights.models import FAMILIES, config_of

LIMIT = 1e-5  # of float32, relative; most are near 1e-6


@pytest.fixture(scope="module")
def configs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("configs")
    return {name: config_of(raw, directory / name) for name, raw in FAMILIES.items()}


def of_rank(rank: int, tp: int) -> Ranks:
    return Ranks(1, tp, rank)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_parts_tile_every_parameter_and_make_it_up_again(configs, data):
    tp = data.draw(st.integers(1, 5))
    config = replace(
        configs[data.draw(st.sampled_from(sorted(configs)))], vocab_size=data.draw(st.integers(3, 40)),
        num_key_value_heads=(kv := tp * data.draw(st.integers(1, 2))),
        num_attention_heads=kv * data.draw(st.integers(1, 3)), intermediate_size=tp * data.draw(st.integers(1, 9)),
    )  # fmt: skip
    for name, shape in shapes(config).items():
        value = np.arange(np.prod(shape)).reshape(shape)
        parts = [value[part(name, config, of_rank(rank, tp))] for rank in range(tp)]
        assert len({p.shape for p in parts}) == 1
        assert sum(p.size for p in parts) == value.size * (1 if name in axes(config, tp) else tp)
        split = axis(name, config, tp)
        np.testing.assert_array_equal(parts[0] if split is None else np.concatenate(parts, split), value)


def test_query_heads_go_with_the_heads_that_they_read(configs):
    config = replace(configs["llama"], num_attention_heads=12, num_key_value_heads=4)
    for rank in range(4):
        (q, _), (k, _) = (part(f"blocks.2.attn.{x}.weight", config, of_rank(rank, 4)) for x in "qk")
        assert (q.start // config.head_dim // 3, q.stop // config.head_dim // 3) == (
            k.start // config.head_dim, k.stop // config.head_dim)  # fmt: skip


def test_a_vocabulary_that_does_not_divide_is_whole_everywhere(configs):
    config = replace(configs["gpt2"], vocab_size=50257)
    check_split(config, of_rank(1, 4))
    assert part("embed.weight", config, of_rank(1, 4)) == (slice(0, 50257), slice(0, 24))
    assert axis("embed.weight", config, 4) is None and axis("embed.weight", config, 29) == 0
    assert part("embed.weight", config, of_rank(28, 29))[0] == slice(48524, 50257)


@pytest.mark.parametrize("name", ["blocks.0.mlp.down.bias", "norm.weight", "position.weight", "blocks.1.norm1.bias"])
def test_what_has_no_axis_is_whole(configs, name):
    assert part(name, configs["gpt2"], of_rank(1, 2)) == part(name, configs["gpt2"], ALONE)


@pytest.mark.parametrize(("tp", "said"), [(3, "num_attention_heads 4"), (4, "num_key_value_heads 2"), (8, "44")])
def test_heads_and_widths_that_do_not_divide_are_refused(configs, tp, said):
    with pytest.raises(ConfigError, match=said):
        check_split(configs["llama"], of_rank(0, tp))
    with pytest.raises(ConfigError, match=said):
        GPT(configs["llama"], ranks=Ranks(1, tp, 0, "", "nobody"))


def test_a_name_that_the_schema_has_not(configs):
    with pytest.raises(MappingError, match=r"lm_head\.weight"):
        part("lm_head.weight", configs["gpt2"], ALONE)


def test_one_process_has_no_collective(configs):
    cells = {type(cell).__name__ for _, cell in GPT(configs["llama"]).cells_and_names()}
    assert not cells & {"Shared", "Summed", "Gathered", "SharedWeights", "OwnRows"}


@pytest.fixture(scope="module")
def found():
    """What each of four ranks found; the first two compiled a model, the others disturbed some."""
    return call("tests.model.split_worker:check", workers=4, timeout=500)


def missed(figures):
    return {name: figure for name, figure in figures.items() if not figure <= LIMIT}


def test_four_processes_compute_what_one_does(found):
    for rank in found:
        assert {case: far for case, figures in rank["figures"].items() if (far := missed(figures))} == {}
        assert rank["continued"]
    for rank in found[:2]:
        assert missed(rank["graph"]) == {}
    for rank in found[2:]:
        assert missed(rank["again"]) == {}
        assert max(rank["half"].values()) < 1e-2 and rank["half"]["not alike"] == 0


def test_faults_planted_into_a_split_model_are_seen_by_every_rank(found):
    for rank in found[2:]:
        assert len(rank["faults"]) == 4
        assert {name for name, figures in rank["faults"].items() if max(figures.values()) <= 100 * LIMIT} == set()


def test_what_is_in_no_part_of_the_vocabulary_stops_every_rank(found):
    assert [rank["stops"] for rank in found] == [{"id": True, "label": True, "-1": True}] * 4


def test_surprises_of_collectives_on_a_cpu(found):
    """So all are sums, and each has a gradient of its own: see `mindport.model.collectives`."""
    for rank in found:
        assert "only support mccl_world_group" in rank["surprises"]["AllGather in a group"]
        assert "only support reduce sum" in rank["surprises"]["the largest"]
        assert rank["surprises"]["slope of a sum"] == "[2.]"
