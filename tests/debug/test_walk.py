"""Line by line: what each statement made; and a debugger's session that writes itself."""

from __future__ import annotations

import sys

import mindspore as ms
import pytest
from mindspore import Tensor, nn

from mindport.debug import session, walk
from mindport.debug.cases import SiLU, case
from mindport.debug.modes import mode
from mindport.errors import UsageError


@pytest.fixture(autouse=True)
def _pynative():
    with mode(ms.PYNATIVE_MODE):
        yield


class Loop(nn.Cell):
    """A loop, a method of its own, and a statement over several lines."""

    def construct(self, x):
        for _ in range(2):
            x = self.doubled(x)
        return (
            x
            + 1
        )  # fmt: skip

    def doubled(self, x):
        return x * 2


def test_every_statement_is_seen_once_each_time():
    found = walk(Loop(), Tensor([1.0, 3.0]))
    assert [stop.code for stop in found.stops] == [
        "for _ in range(2):", "return x * 2", "x = self.doubled(x)", "for _ in range(2):", "return x * 2",
        "x = self.doubled(x)", "for _ in range(2):", "return x + 1",
    ]  # fmt: skip
    assert [stop.made[0].high for stop in found.stops if stop.made] == [6, 6, 12, 12, 13]
    assert found.ok


def test_the_line_that_is_not_finite_is_in_the_headline():
    net, inputs = case("exp").build()
    found = walk(net, *inputs, through="part")
    assert not found.ok
    assert "`e = ops.exp(x)`" in found.headline()
    assert found.file == "cases.py"


def test_cells_that_are_not_there_or_not_called(capsys):
    with pytest.raises(UsageError, match="no such cell"):
        walk(SiLU(), Tensor([1.0]), through="inner")
    net, inputs = case("exp").build()
    with mode(ms.GRAPH_MODE), pytest.raises(UsageError, match="no statement"):
        walk(net, *inputs, through="part")


def test_the_debugger_stops_in_construct_and_gives_the_trace_back():
    net, inputs = case("exp").build()
    trace = sys.gettrace()
    shown = session(lambda: net(*inputs), net.part.construct, ["p x.shape", "next", "p float(e.max())"])
    assert shown.ok
    assert [line for line in shown.session.splitlines() if line.startswith("(Pdb)")] == [
        "(Pdb) continue", "(Pdb) p x.shape", "(Pdb) next", "(Pdb) p float(e.max())", "(Pdb) continue"]  # fmt: skip
    assert "(2, 5, 8)" in shown.session and "inf" in shown.session
    assert "/" not in shown.session.partition("(Pdb) p")[0]
    assert sys.gettrace() is trace


def test_a_breakpoint_that_is_not_reached_says_so():
    net, _ = case("exp").build()
    assert not session(lambda: None, net.part.construct, []).ok
