"""Each parameter exactly once, under the schema's name and shape."""

from __future__ import annotations

import numpy as np
import pytest

from mindport.errors import MappingError
from mindport.model.parameters import Parameters, fresh


@pytest.fixture
def params(pair):
    return Parameters(pair("llama").config, fresh(pair("llama").config))


def test_a_scope_knows_what_it_has(params):
    q = params / "blocks" / 1 / "attn" / "q"
    assert "bias" in q
    assert "bias" not in params / "embed"
    assert q("weight").shape == (48, 24)


def test_a_parameter_is_taken_once(params):
    (params / "norm")("weight")
    with pytest.raises(MappingError, match=r"norm\.weight"):
        (params / "norm")("weight")


def test_what_no_cell_took_is_named(params):
    with pytest.raises(MappingError, match=r"no cell for these parameters[\s\S]*embed\.weight"):
        params.finish()


def test_fresh_values_depend_on_the_seed_only(pair):
    one, again, other = (fresh(pair("llama").config, seed)("embed.weight", (37, 24)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert one.dtype == np.float32
    assert np.abs(one - other).max() > 0
