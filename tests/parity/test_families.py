"""What sets a family apart, got wrong: the comparison is red and names the module."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest

from mindport.config import DIALECTS
from mindport.config.dialects import dialect_for
from mindport.debug import examine
from mindport.parity.compare import first_divergence
from mindport.parity.taps import taps
from mindport.parity.trace import read_trace
from mindport.weights import convert
from mindport.weights.manifest import read_manifest, write_manifest
from tests.families import FAMILIES

SETTINGS = {
    "no window": ("mistral", {"window": None}, "blocks.0.attn.context"),
    "a window one key wider": ("mistral", {"window": (6, 6, 6)}, "blocks.0.attn.context"),
    "windows in the first layers": ("qwen2", {"window": (5, None, None)}, "blocks.0.attn.context"),
    "whole heads rotated": ("gpt_neox", {"rotary_dim": None}, "blocks.0.attn.context"),
    "one after the other": ("gpt_neox", {"parallel_residual": False}, "blocks.0"),
    "side by side": ("gpt_neox sequential linear", {"parallel_residual": True}, "blocks.0"),
    "norms not around zero": ("gemma", {"norm_offset": 0}, "blocks.0.norm1"),
    "no embedding scale": ("gemma", {"embedding_scale": 1.0}, "embed"),
}


def first_wrong(converted, trace) -> str:
    found = first_divergence(examine(converted, read_trace(trace)))
    assert found is not None and found.local
    return found.path


@pytest.mark.parametrize("fault", SETTINGS)
def test_a_wrong_feature_is_named(case, fault, tmp_path):
    name, change, expected = SETTINGS[fault]
    wrong = tmp_path / "wrong"
    shutil.copytree(case(name).converted, wrong)
    manifest = read_manifest(wrong)
    write_manifest(wrong, dataclasses.replace(manifest, model=dataclasses.replace(manifest.model, **change)))
    assert first_wrong(wrong, case(name).trace) == expected


def test_norms_after_the_rotation_are_named(case, monkeypatch):
    from mindport.model.gpt import Attention

    def rotated_first(self, x, cos, sin):
        q, k, v = (self.split(part(x)) for part in (self.q, self.k, self.v))
        q, k = (self.rotate(part, cos, sin) for part in (q, k))
        return self.q_norm(q), self.k_norm(k), v

    monkeypatch.setattr(Attention, "heads", rotated_first)
    assert first_wrong(case("qwen3").converted, case("qwen3").trace) == "blocks.0.attn.context"


def test_a_grouped_projection_read_as_three_blocks_is_named(case, monkeypatch, tmp_path):
    neox, dialect = case("gpt_neox"), dialect_for("gpt_neox")
    rows = tuple(
        dataclasses.replace(row, layout="stack" if "qkv" in row.layout else row.layout) for row in dialect.rows
    )
    with monkeypatch.context() as patch:
        patch.setitem(DIALECTS, "gpt_neox", dataclasses.replace(dialect, rows=rows))
        assert convert(neox.source, tmp_path / "wrong", progress=False).ok  # no name, shape or digest is wrong
    assert first_wrong(tmp_path / "wrong", neox.trace) == "blocks.0.attn.q"


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "phi3"])
def test_a_fused_module_gives_each_cell_its_own_columns(case, name, tmp_path):
    config = read_manifest(case({"gpt2": "gpt2-tied"}.get(name, name)).converted).model
    found = taps(config, dialect_for(config.model_type))
    q, k, v = (np.array(found[f"blocks.1.attn.{x}"].columns) for x in "qkv")
    assert sorted([*q, *k, *v]) == list(range(q.size + k.size + v.size))
    d = config.head_dim
    expected = [*range(d), *range(3 * d, 4 * d)] if name == "gpt_neox" else [*range(2 * d)]
    assert q[: 2 * d].tolist() == expected
    assert found["blocks.1.attn.q"].foreign.endswith(
        {"gpt2": "c_attn [0:24]", "gpt_neox": "query_key_value [0:6, 18:24, 36:42, …]", "phi3": "qkv_proj [0:48]"}[name]
    )


def test_every_family_has_a_model_here():
    assert {family for family, _ in FAMILIES.values()} == DIALECTS.keys()
