"""The selector: order by device, refusals, overrides, and the record."""

from __future__ import annotations

import mindspore as ms
import pytest

from mindport.errors import BackendError
from mindport.model.kernels import attention, choices, choices_table, gelu, override, rms_norm, rope, selector
from mindport.model.kernels.attention import Ascend, Cpu, Reference

SETTINGS = {"heads": 4, "kv_heads": 2, "head_dim": 64, "scale": 0.125, "dropout": 0.0, "dtype": "float16"}


@pytest.fixture(autouse=True)
def fresh_record(monkeypatch):
    monkeypatch.setattr(selector, "_made", selector.Counter())


def on(monkeypatch, device):
    monkeypatch.setattr(selector.ms, "get_context", lambda key: device)


def last():
    return choices()[-1]


def test_this_cpu_takes_the_compiled_kernel_for_float32(compiler):
    assert isinstance(attention(**{**SETTINGS, "dtype": "float32"}), Cpu)
    assert (last().path, last().reason) == ("cpu", "CPU: C++ compiled here")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "float32, not float16"),
        ({"dtype": "float32", "head_dim": 12}, "a multiple of 8 up to 256, not 12"),
        ({"dtype": "float32", "head_dim": 264}, "a multiple of 8 up to 256, not 264"),
    ],
)
def test_this_cpu_says_why_it_takes_the_reference(change, why):
    assert isinstance(attention(**{**SETTINGS, **change}), Reference)
    assert last().path == "reference"
    assert why in last().reason


def test_ascend_takes_its_own_operator(monkeypatch):
    on(monkeypatch, "Ascend")
    assert isinstance(attention(**SETTINGS), Ascend)
    assert (last().path, last().reason) == ("ascend", "Ascend: the device's own operator")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dtype": "float32"}, "float16 and bfloat16, not float32"),
        ({"head_dim": 72}, "a multiple of 16 up to 512, not 72"),
        ({"head_dim": 528}, "a multiple of 16 up to 512, not 528"),
        ({"heads": 257, "kv_heads": 1}, "at most 256 heads, not 257"),
        ({"upcast": True}, "no promise of scores in float32"),
    ],
)
def test_a_refusal_falls_back_and_says_why(monkeypatch, change, why):
    on(monkeypatch, "Ascend")
    assert isinstance(attention(**{**SETTINGS, **change}), Reference)
    assert why in last().reason


def test_rope_refuses_wide_heads(monkeypatch):
    on(monkeypatch, "Ascend")
    rope(head_dim=64)
    assert last().path == "ascend"
    rope(head_dim=896)
    assert last().path == "reference"


def test_the_rms_norm_operator_takes_no_offset(monkeypatch):
    on(monkeypatch, "Ascend")
    rms_norm(eps=1e-6, offset=1)
    assert (last().path, "a weight without offset" in last().reason) == ("reference", True)


def test_a_device_without_an_order_gets_the_reference(monkeypatch):
    on(monkeypatch, "GPU")
    assert isinstance(attention(**SETTINGS), Reference)


def test_an_override_holds_within_its_block_only():
    with override("attention", "ascend"):
        assert isinstance(attention(**SETTINGS), Ascend)
        assert last().reason == "asked for by an override"
        with override("attention", "reference"):
            assert isinstance(attention(**SETTINGS), Reference)
        assert isinstance(attention(**SETTINGS), Ascend)
    assert isinstance(attention(**SETTINGS), Reference)


def test_an_override_with_a_path_that_is_not_there_stops():
    with override("attention", "abacus"), pytest.raises(BackendError, match="no such path") as error:
        attention(**SETTINGS)
    assert error.value.expected == "ascend, cpu, reference"


def test_a_path_written_later_is_taken_first_on_its_device():
    class Later(Reference):
        @staticmethod
        def refuses(**settings):
            return None if settings["head_dim"] % 8 == 0 else "a head_dim that is a multiple of 8"

    paths = {"cpu": Later, "reference": Reference}
    assert isinstance(selector.select("attention", paths, **SETTINGS), Later)
    assert type(selector.select("attention", paths, **{**SETTINGS, "head_dim": 12})) is Reference
    assert "the cpu path takes a head_dim that is a multiple of 8" in last().reason


def test_the_record_counts_cells():
    for _ in range(3):
        gelu(approximate=True)
    rms_norm(eps=1e-5)
    table = choices_table()
    assert [(row[0], row[2]) for row in table.rows] == [("gelu", 3), ("rms_norm", 1)]
    assert ms.get_context("device_target") in table.text()
