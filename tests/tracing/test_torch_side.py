"""A torch module is recorded as it is, and stays as it was."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mindport.errors import BackendError, FileError, UsageError
from mindport.parity.trace import BFLOAT16, read_trace
from mindport.tracing import compare_traces
from mindport.tracing.torch_side import record, recording
from tests.tracing import users

X = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 10


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(1)
    return users.load(users.TORCH, "theirs_torch_here")


def linear(**options):
    torch.manual_seed(0)
    return nn.Linear(4, 2, **options)


def test_nothing_of_the_module_or_the_process_changes(net, tmp_path):
    module, given = net.build()
    module.train()
    module.blocks[0].eval()
    before = {part: part.training for part in module.modules()}
    weights = {name: x.clone() for name, x in module.state_dict().items()}
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    read = read_trace(record(module, given, tmp_path / "t", seed=5))
    assert {part: part.training for part in module.modules()} == before
    assert all(torch.equal(weights[name], x) for name, x in module.state_dict().items())
    assert all(weight.grad is None for weight in module.parameters())
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[:2]
    assert torch.equal(torch.get_rng_state(), states[2])
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert (read.about["seed"], read.about["dropout"], read.about["framework"]) == (5, False, "torch")


def test_values_gradients_and_order_are_torchs_own(net, tmp_path):
    module, given = net.build()
    read = read_trace(record(module, given, tmp_path / "t"))
    module.eval()
    output = module(**{name: torch.from_numpy(x) for name, x in given.items()})
    loss = (1 + output * output).sqrt().mean()
    loss.backward()
    assert np.array_equal(read["out/."], output.detach().numpy()) and read["loss"] == loss.item()
    for name in ("words.weight", "blocks.1.norm.bias", "conv.weight"):
        np.testing.assert_allclose(read[f"grad/{name}"], module.get_parameter(name).grad, rtol=1e-5, atol=1e-8)
    order = read.about["order"]
    assert order[0] == "in/.[image]" and order[-1] == "out/." and order.index("in/conv") < order.index("out/conv")
    assert order.index("out/blocks.1[0]") < order.index("in/blocks.0#2[0]")
    assert read.about["backward"][:2] == ["back/final", "back/."]


def test_every_float_has_its_exact_value_beside_it(net, tmp_path):
    read = read_trace(record(*net.build(), tmp_path / "t"))
    floats = {name for name, x in read.arrays.items() if x.dtype == np.float32}
    assert floats == read.missed.keys() and read.about["exact"].startswith("known")
    assert 0 < np.abs(read.missed["out/."]).max() < 1e-5


def test_what_is_changed_in_place_stays_as_it_was(net, tmp_path):
    read = read_trace(record(*net.build(), tmp_path / "t"))
    assert read["out/blocks.0.up"].min() < 0 <= read["out/blocks.0.act"].min()
    assert np.array_equal(read["in/blocks.0.act"], read["out/blocks.0.up"])
    assert read.about["skipped"]["back/blocks.0.up"].startswith("no gradient came")


def test_what_is_no_tensor_is_skipped_by_name(net, tmp_path):
    about = read_trace(record(*net.build(), tmp_path / "t")).about
    assert about["skipped"]["out/blocks.0[1][times]"] == "int, not a tensor"
    assert about["skipped"]["grad/unused.weight"] == "the loss does not depend on it"
    assert about["not_called"] == ["unused"]  # and no ModuleList, which nobody calls


def test_dropout_is_off_unless_asked_for_and_then_follows_the_seed(tmp_path):
    module = nn.Sequential(nn.Dropout(0.5), linear())
    off = read_trace(record(module.train(), X, tmp_path / "off"))
    assert np.array_equal(off["out/0"], X.numpy())
    on = [
        read_trace(record(module, X, tmp_path / f"on{i}", dropout=True, seed=seed)) for i, seed in enumerate((1, 1, 2))
    ]
    assert np.array_equal(on[0]["out/0"], on[1]["out/0"]) and not np.array_equal(on[0]["out/0"], on[2]["out/0"])
    assert (on[0]["out/0"] == 0).any() and on[0].missed == {}


def test_bfloat16_is_carried_bit_for_bit(net, tmp_path):
    module, given = net.half()
    read = read_trace(record(module, given, tmp_path / "t"))
    assert read["out/conv"].dtype == BFLOAT16 == read["grad/words.weight"].dtype
    with torch.no_grad():
        expected = module.eval().conv(given["image"]).view(torch.int16).numpy()
    assert np.array_equal(read["out/conv"].view(np.int16), expected)
    assert compare_traces(read, read).ok and read.missed["out/conv"].any()


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Nest(nn.Module):
    """Outputs and inputs of every make; a loss of its own."""

    def forward(self, first, rest, *, scale=None):
        return {"loss": (first * rest["x"]).sum(), "parts": [Pair(first, first + 1), (None, "word")], 3: scale}


def test_nests_are_named_by_their_places(tmp_path):
    record(Nest(), {"first": X, "rest": {"x": X.numpy(), "n": 2}, "scale": X.bool()}, tmp_path / "t")
    read = read_trace(tmp_path / "t")
    assert [name for name in read.about["order"] if name.startswith("out/")] == [
        "out/.[loss]", "out/.[parts][0][left]", "out/.[parts][0][right]", "out/.[3]"
    ]  # fmt: skip
    assert read["in/.[rest][x]"].dtype == np.float32 and read["out/.[3]"].dtype == bool
    assert read.about["loss"] == "the scalar that the module makes"
    assert {"in/.[rest][n]", "out/.[parts][1][1]", "grad/"} <= read.about["skipped"].keys()


def test_a_loss_of_the_callers(tmp_path):
    read = read_trace(record(linear(), X, tmp_path / "t", loss=lambda y: (y**2).sum()))
    assert read["loss"] == pytest.approx((read["out/."] ** 2).sum()) and "function" in read.about["loss"]


def test_what_forward_runs_again_in_the_backward_is_recorded_once(tmp_path):
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = linear()

        def forward(self, x):
            return checkpoint(self.fc, x, use_reentrant=False)

    read = read_trace(record(Again(), X, tmp_path / "t"))
    assert "out/fc" in read and "out/fc#2" not in read and "grad/fc.weight" in read


def test_a_module_that_insists_on_float32_has_no_exact_values(tmp_path):
    class Insists(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = linear()

        def forward(self, x):
            if x.dtype != torch.float32:
                raise ValueError("float32, please\nat once")
            return self.fc(x)

    read = read_trace(record(Insists(), X, tmp_path / "t"))
    assert read.about["exact"] == "not known: in float64 the module raised ValueError: float32, please"
    assert read.missed == {} and "grad/fc.weight" in read


def test_only_what_matches(net, tmp_path):
    read = read_trace(record(*net.build(), tmp_path / "t", match=r"norm$", backward=False))
    paths = {name.partition("/")[2].split("[")[0].split("#")[0] for name in read.about["order"]}
    assert (
        paths == {".", "blocks.0.norm", "blocks.1.norm"}
        and read.about["not_called"] == []
        and not any(name.startswith("grad/") for name in read.arrays)
    )
    for match, message in (("nowhere", "no module has such a path"), ("(", "no regular expression")):
        with pytest.raises(UsageError, match=message):
            record(*net.build(), tmp_path / "u", match=match)


def test_a_record_that_grows_too_large_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(UsageError, match=r"too large(.|\n)*out/\.(.|\n)*--match"):
        record(linear(), X, tmp_path / "t", most=60)
    assert list(tmp_path.iterdir()) == []


def test_sparse_values_are_skipped_with_the_reason(tmp_path):
    class Sparse(nn.Module):
        def forward(self, x):
            return x.to_sparse(), x.to(torch.float8_e4m3fn), x

    skipped = read_trace(record(Sparse(), X, tmp_path / "t", backward=False)).about["skipped"]
    assert "sparse" in skipped["out/.[0]"] and "float8" in skipped["out/.[1]"]


def test_round_code_of_the_callers_own(tmp_path):
    module, extra = linear(), torch.ones(2, dtype=torch.bfloat16)
    with recording(module, tmp_path / "t", seed=3) as seen:
        loss = module(X).sum()
        loss.backward()
        seen.add("loss", loss)
        seen.add("extra", extra)
    read = read_trace(tmp_path / "t")
    assert np.array_equal(read["grad/weight"], module.weight.grad) and read["loss"] == loss.item()
    assert read["extra"].dtype == BFLOAT16 and "back/." in read
    with pytest.raises(BackendError, match="the module was not called"), recording(module, tmp_path / "u"):
        module.forward(X)
    with pytest.raises(RuntimeError, match="theirs"), recording(module, tmp_path / "v"):
        raise RuntimeError("theirs")
    assert not (tmp_path / "u").exists() and not (tmp_path / "v").exists()


def test_a_trace_that_is_there_stays(tmp_path):
    record(linear(), X, tmp_path / "t")
    with pytest.raises(FileError, match="there already"):
        record(linear(), X, tmp_path / "t")
    record(linear(bias=False), X, tmp_path / "t", overwrite=True)
    assert "grad/bias" not in read_trace(tmp_path / "t")


@pytest.mark.parametrize("seed", [-1, 1 << 32])
def test_a_seed_that_is_none(seed, tmp_path):
    with pytest.raises(UsageError, match="no seed"):
        record(linear(), X, tmp_path / "t", seed=seed)


def test_parameters_of_every_dtype_are_known_or_said(tmp_path):
    module = linear()
    module.scales = nn.Parameter(torch.ones(2, dtype=torch.int8), requires_grad=False)
    module.tiny = nn.Parameter(torch.ones(2).to(torch.float8_e4m3fn), requires_grad=False)
    about = read_trace(record(module, X, tmp_path / "t", exact=False)).about
    assert about["parameters"]["scales"]["dtype"] == "int8" and "tiny" not in about["parameters"]
    assert "float8" in about["skipped"]["parameter tiny"]
