"""The selector: order by device, refusals, overrides, and the record."""

from __future__ import annotations

import mindspore as ms
import pytest

from mindport.errors import BackendError
from mindport.model.kernels import attention, choices, choices_table, gelu, override, rms_norm, rope, selector
from mindport.model.kernels.attention import Ascend, Reference

SETTINGS = {"heads": 4, "kv_heads": 2, "head_dim": 64, "scale": 0.125, "dropout": 0.0, "dtype": "float16"}


@pytest.fixture(autouse=True)
def fresh_record(monkeypatch):
    monkeypatch.setattr(selector, "_made", selector.Counter())


def on(monkeypatch, device):
    monkeypatch.setattr(selector.ms, "get_context", lambda key: device)


def last():
    return choices()[-1]


def test_the_reference_runs_on_this_cpu():
    assert isinstance(attention(**SETTINGS), Reference)
    assert (last().path, last().reason) == ("reference", "CPU: plain operators")


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
        ({"heads": 257}, "at most 256 heads, not 257"),
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
    assert error.value.expected == "ascend, reference"


def test_a_path_written_later_is_taken_first_on_its_device():
    class Cpu(Reference):
        @staticmethod
        def refuses(**settings):
            return None if settings["head_dim"] % 8 == 0 else "a head_dim that is a multiple of 8"

    paths = {"cpu": Cpu, "reference": Reference}
    assert isinstance(selector.select("attention", paths, **SETTINGS), Cpu)
    assert type(selector.select("attention", paths, **{**SETTINGS, "head_dim": 12})) is Reference
    assert "the cpu path takes a head_dim that is a multiple of 8" in last().reason


def test_the_record_counts_cells():
    for _ in range(3):
        gelu(approximate=True)
    rms_norm(eps=1e-5)
    table = choices_table()
    assert [(row[0], row[2]) for row in table.rows] == [("gelu", 3), ("rms_norm", 1)]
    assert ms.get_context("device_target") in table.text()
