"""The harness measures what it says: interleaved, medians, ratios to the peers."""

from __future__ import annotations

import time

import pytest

from mindport.errors import UsageError
from mindport.tuning import bench
from mindport.tuning.harness import Benchmark, Case, Timing, compare


def test_contestants_take_turns():
    order: list[str] = []
    both = {"ours": lambda: order.append("o"), "peer": lambda: order.append("p")}
    case = compare("c", both, work=1, unit="u", repeats=3)
    assert "".join(order) == "op" * 4  # one round to warm up, three counted
    assert list(case.timings) == ["ours", "peer"]


def test_the_slower_one_has_the_ratio_above_one():
    case = compare("c", {"ours": lambda: time.sleep(0.02), "peer": lambda: None}, work=1, unit="u", repeats=2)
    assert case.ratios["peer"] > 1


def test_ratio_is_ours_over_the_peers_median():
    case = Case("c", {"ours": Timing(2.0, 1.0, 9.0), "copy": Timing(4.0, 3.0, 5.0)}, 100.0, "MB/s")
    report = Benchmark("convert", (case,), {}, {})
    assert case.ratios == {"copy": 0.5}
    assert report.as_dict()["ratios"] == {"c": {"copy": 0.5}}
    assert "0.50 × copy" in report.headline()
    assert report.tables()[0].rows[0][-1] == "50 MB/s"


def test_an_unknown_benchmark_is_refused():
    with pytest.raises(UsageError, match="convert"):
        bench("poetry")


def test_conversion_is_timed_both_ways(monkeypatch):
    from mindport.tuning import conversion

    monkeypatch.setattr(conversion, "REPEATS", 1)
    small = {"num_hidden_layers": 2, "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96}
    monkeypatch.setattr(conversion, "MODEL", {**conversion.MODEL, **small})
    found = conversion.cases()
    assert [case.name for case in found] == ["to mindspore", "to huggingface"]
    assert 0 < found[0].memory["of these before MB"] <= found[0].memory["peak MB"]
