"""Every constant has a source and a range that holds its value; what is given is checked."""

from __future__ import annotations

import pytest

from mindport.errors import UsageError
from mindport.parallel.plan import hardware, parse_settings
from mindport.parallel.plan.constants import read

DEVICES = [*read()["names"], *read()["devices"]]


@pytest.mark.parametrize("device", DEVICES)
def test_each_value_is_in_its_range_and_has_a_source(device):
    found = hardware(device)
    assert {"peak", "memory", "efficiency", "link", "network", "margin"} <= set(found.constants)
    for name, constant in found.constants.items():
        assert constant.low <= constant.value <= constant.high, name
        assert constant.unit and len(constant.source) > 6, name


def test_a_generation_is_its_usual_variant_and_variants_differ():
    assert hardware("910B") == hardware("910B3") != hardware("910B4")
    assert hardware("910B4")["memory"] < hardware("910B3")["memory"] and not hardware("910A").bf16
    assert set(read()["servers"].values()) <= set(read()["devices"])


def test_given_values_replace_the_file_s():
    found = hardware("910B").with_values(parse_settings(["peak=2e14", "tp_overlap=0"]))
    assert (found["peak"], found["tp_overlap"], found.constants["peak"].source) == (2e14, 0, "given")
    assert hardware("910B")["peak"] == 313e12


@pytest.mark.parametrize("text", ["peek=1", "peak=0", "peak=-1", "peak=nan", "peak=inf", "peak", "peak=x", "=1",
                                  "efficiency=1.1", "efficiency=0", "margin=2", "tp_overlap=-0.1"])  # fmt: skip
def test_impossible_values_are_refused(text):
    with pytest.raises(UsageError):
        hardware("910B").with_values(parse_settings([text]))
