"""A MindSpore cell is recorded as it is, and stays as it was; and the two sides say the same of the same module."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from mindport.errors import BackendError
from mindport.parity.trace import BFLOAT16, read_trace
from mindport.tracing.mindspore_side import record, recording

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 10


@pytest.fixture(autouse=True)
def pynative():
    before = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=before)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc, self.drop, self.act = nn.Dense(4, 4), nn.Dropout(p=0.5), nn.ReLU()

    def construct(self, x, mask=None):
        return self.act(self.drop(self.act(self.fc(x)))), (mask, "word")


def test_nothing_of_the_cell_changes_and_gradients_are_mindspores_own(tmp_path):
    net = Net().set_train(True)
    net.act.set_train(False)
    before = [cell.training for cell in net.cells()]
    read = read_trace(record(net, {"x": X, "mask": X > 0.5}, tmp_path / "t", seed=5))
    assert [cell.training for cell in net.cells()] == before and net.training
    assert not any(cell._forward_hook or cell._forward_pre_hook for _, cell in net.cells_and_names())

    def loss():
        return ops.sqrt(1 + net.set_train(False)(Tensor(X))[0] ** 2).mean()

    value, (weight, bias) = ms.value_and_grad(loss, None, weights=net.trainable_params())()
    np.testing.assert_allclose(read["loss"], value.asnumpy(), rtol=1e-6)
    np.testing.assert_allclose(read["grad/fc.weight"], weight.asnumpy(), rtol=1e-5)
    np.testing.assert_allclose(read["grad/fc.bias"], bias.asnumpy(), rtol=1e-5)
    assert np.array_equal(read["out/drop"], read["in/drop"])  # dropout is off
    assert read["in/.[mask]"].dtype == bool and read.about["skipped"]["out/.[1][1]"] == "str, not a tensor"
    assert {"out/act", "out/act#2", "back/act", "back/act#2", "back/fc"} <= read.arrays.keys()
    assert read.about["framework"] == "mindspore" and read.about["parameters"]["fc.weight"]["shape"] == [4, 4]


def test_dropout_is_drawn_when_asked_for_and_that_of_ops_follows_the_seed(tmp_path):
    class Functional(nn.Cell):
        def construct(self, x):
            return ops.dropout(x, 0.5, training=self.training)

    ones, seeds = np.ones((8, 8), np.float32), {"one": 1, "again": 1, "two": 2}
    traces = {
        name: record(Functional(), ones, tmp_path / name, dropout=True, seed=seed) for name, seed in seeds.items()
    }
    drawn = [read_trace(path)["out/."] for path in traces.values()]
    assert (drawn[0] == 0).any() and np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])
    net = nn.SequentialCell(nn.Dropout(p=0.5))
    assert (read_trace(record(net, ones, tmp_path / "on", dropout=True))["out/0"] == 0).any()
    assert np.array_equal(read_trace(record(net, ones, tmp_path / "off"))["out/0"], ones)


def test_bfloat16_is_carried_bit_for_bit(tmp_path):
    class Cast(nn.Cell):
        def construct(self, x):
            return x.astype(ms.bfloat16)

    read = read_trace(record(Cast(), X, tmp_path / "t", backward=False))
    assert read["out/."].dtype == BFLOAT16 and np.array_equal(read["out/."], X.astype(BFLOAT16))


def test_a_cell_with_its_own_bprop_takes_no_hook_and_that_is_said(tmp_path):
    class Own(nn.Cell):
        def construct(self, x):
            return x * 2

        def bprop(self, x, out, dout):
            return (dout * 2,)

    net = nn.SequentialCell(nn.Dense(4, 4), Own())
    read = read_trace(record(net, X, tmp_path / "t"))
    assert "out/1" not in read and "bprop of its own" in read.about["skipped"]["out/1"] and "grad/0.weight" in read


def test_a_value_that_no_parameter_reaches_has_no_gradient_and_that_is_said(tmp_path):
    class Mixed(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc, self.free = nn.Dense(4, 4), nn.ReLU()

        def construct(self, x):
            return self.fc(x) * self.free(x)

    read = read_trace(record(Mixed(), X, tmp_path / "t"))
    assert "back/fc" in read and read.about["skipped"]["back/free"].startswith("no gradient came")


def test_round_code_of_the_callers_own(tmp_path):
    net = nn.Dense(4, 2)
    with recording(net, tmp_path / "t") as seen:
        seen.add("loss", net(Tensor(X)).mean())
    read = read_trace(tmp_path / "t")
    assert read["loss"] == pytest.approx(read["out/."].mean()) and read.about["loss"] == "of the caller"


class Compiled(nn.Cell):
    """A construct that is a graph, with a cell inside; of this module, since jit reads the source."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 4)

    @ms.jit
    def construct(self, x):
        return self.fc(x) * 2


@pytest.mark.parametrize("path", [".", "0"])
def test_the_cells_inside_a_jit_are_listed_as_not_called(path, tmp_path):
    net = Compiled() if path == "." else nn.SequentialCell(Compiled(), nn.Dense(4, 2))
    read = read_trace(record(net, X, tmp_path / "t"))
    inner = "fc" if path == "." else "0.fc"
    assert f"out/{path}" in read and read.about["not_called"] == [inner] and f"grad/{inner}.weight" in read


def test_graph_mode_is_refused(tmp_path):
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(BackendError, match="hooks do not fire"):
        record(nn.Dense(4, 2), X, tmp_path / "t")
    with pytest.raises(BackendError, match="hooks do not fire"), recording(nn.Dense(4, 2), tmp_path / "t"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_cell_without_parameters_and_one_without_floats(tmp_path):
    read = read_trace(record(nn.ReLU(), X, tmp_path / "t"))
    assert read.about["skipped"]["grad/"].startswith("the loss depends on no parameter") and "loss" in read

    class Ints(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc = nn.Dense(4, 4)

        def construct(self, x):
            return self.fc(x).astype(ms.int32)

    read = read_trace(record(Ints(), X, tmp_path / "u"))
    assert "loss" not in read and "grad/fc.weight" not in read and "grad/" in read.about["skipped"]
