"""Cross entropy, in C++ and by plain operators, against torch in float64: values, gradients, and what is no label."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Tensor, nn
from torch.nn import functional as F

from mindport.model import NextTokenLoss, kernels
from mindport.model.kernels import choices, override
from tests.model.kernels.cases import normal
from tests.model.kernels.planted import OTHER_CPUS, planted
from tests.model.reference import MODES, execution, token_ids

PATHS = ["cpu", "reference"]
SHAPES = [(1, 1), (7, 11), (5, 65), (3, 1000), (4, 2500), (6, 16)]  # one class; less than a vector; several blocks


def kernel(path: str = "cpu") -> kernels.selector.Kernel:
    with override("cross_entropy", path):
        return kernels.cross_entropy()


def case(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits of some size, and labels of which every third does not count."""
    labels = np.random.default_rng(seed).integers(0, classes, rows).astype(np.int32)
    labels[1::3] = -100
    return normal(rows, classes, seed=seed, scale=9), labels


def exact(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    x = torch.from_numpy(logits).double().requires_grad_()
    loss = F.cross_entropy(x, torch.from_numpy(labels).long())
    (3 * loss).backward()  # a gradient from above that is not 1
    return loss.item(), x.grad.numpy()


def ours(cell: nn.Cell, logits: np.ndarray, labels: np.ndarray, mode: str = "pynative") -> tuple[float, np.ndarray]:
    return both(Thrice(cell), logits, labels, mode)


def both(thrice: nn.Cell, logits: np.ndarray, labels: np.ndarray, mode: str) -> tuple[float, np.ndarray]:
    """The loss, and the gradient of three times it."""
    with execution(MODES[mode]):
        value, gradient = Both(thrice)(Tensor(logits), Tensor(labels))
        return value.asnumpy().item() / 3, gradient.asnumpy()


class Both(nn.Cell):
    """Three times the loss, and the gradient of that."""

    def __init__(self, thrice: nn.Cell) -> None:
        super().__init__()
        self.both = ms.value_and_grad(thrice, 0)

    def construct(self, logits, labels):
        return self.both(logits, labels)


class Thrice(nn.Cell):
    def __init__(self, cell: nn.Cell) -> None:
        super().__init__()
        self.cell = cell

    def construct(self, logits, labels):
        return 3.0 * self.cell(logits, labels)


def error(got: tuple[float, np.ndarray], expected: tuple[float, np.ndarray]) -> float:
    """The largest part of a limit that is used up: 2e-6 of the value, 1e-5 of the largest gradient."""
    value = abs(got[0] - expected[0]) / max(abs(expected[0]), 1e-3)
    gradient = np.abs(got[1] - expected[1]).max() / max(np.abs(expected[1]).max(), 1e-3)
    return max(value / 2e-6, gradient / 1e-5)


def test_a_cpu_with_a_compiler_takes_cpp(compiler):
    kernels.cross_entropy()
    assert ("cross_entropy", "cpu") in {(choice.kernel, choice.path) for choice in choices()}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_value_and_gradient(path, shape):
    assert error(ours(kernel(path), *case(*shape)), exact(*case(*shape))) <= 1


@pytest.mark.parametrize("path", PATHS)
def test_graph_mode(path):
    assert error(ours(kernel(path), *case(5, 65), "graph"), exact(*case(5, 65))) <= 1


@pytest.mark.parametrize("mode", MODES)
def test_under_recompute(mode):
    cell = kernel()
    cell.recompute()
    assert error(ours(cell, *case(5, 65), mode), exact(*case(5, 65))) <= 1


@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
@pytest.mark.parametrize("mode", MODES)
def test_mixed_precision_leaves_it_in_float32(mode, level):
    """C++ would refuse float16; only the logits that come in may be rounded to it."""
    mixed = ms.amp.auto_mixed_precision(Thrice(kernel()), level, dtype=ms.float16)
    (value, gradient), (wanted, slope) = both(mixed, *case(5, 65), mode), exact(*case(5, 65))
    assert value == pytest.approx(wanted, rel=2e-3)
    assert np.abs(gradient - slope).max() < 5e-3 * np.abs(slope).max()


@pytest.mark.parametrize("compiler", OTHER_CPUS)
def test_shorter_vectors(compiler):
    with planted("cross_entropy.cc", compiler=compiler):
        assert max(error(ours(kernel(), *case(*shape)), exact(*case(*shape))) for shape in SHAPES) <= 1


def test_logits_far_from_zero_lose_nothing():
    """log Σ exp as one float32 would round to 1e-3 here."""
    logits, labels = case(7, 65)
    logits = (logits / 9 + 3e4).astype(np.float32)
    assert error(ours(kernel(), logits, labels), exact(logits, labels)) <= 1


def test_growing_and_shrinking_logits():
    """The largest logit is met in the last block, or in the first."""
    logits, labels = case(2, 5000)
    labels[:] = 7, 4990
    logits += np.linspace(-60, 60, 5000, dtype=np.float32) * np.array([[1], [-1]], np.float32)
    assert error(ours(kernel(), logits, labels), exact(logits, labels)) <= 1


def test_classes_that_are_ruled_out():
    logits, labels = case(7, 65)
    logits[:, 20:40] = -np.inf
    labels[labels >= 0] %= 20
    got, expected = ours(kernel(), logits, labels), exact(logits, labels)
    assert error(got, expected) <= 1
    assert (got[1][:, 20:40] == 0).all()


@pytest.mark.parametrize("path", PATHS)
def test_no_label_that_counts_is_nan_without_a_gradient_as_in_torch(path):
    logits, labels = normal(3, 11), np.full(3, -100, np.int32)
    for value, gradient in (ours(kernel(path), logits, labels), exact(logits, labels)):
        assert np.isnan(value)
        assert (gradient == 0).all()


@pytest.mark.parametrize("path", PATHS)
def test_nan_is_not_heard_where_the_label_does_not_count(path):
    logits, labels = case(7, 11)
    logits[1] = np.nan
    assert ours(kernel(path), logits, labels)[0] == pytest.approx(exact(logits, labels)[0], rel=2e-6)


@pytest.mark.parametrize("path", PATHS)
def test_nan_is_not_hidden_where_it_does(path):
    logits, labels = case(7, 11)
    logits[0, 3] = np.nan
    value, gradient = ours(kernel(path), logits, labels)
    assert not np.isfinite(value)  # NaN in C++; of MindSpore 2.10's LogSoftmax on a CPU, an infinity
    assert not np.isfinite(gradient[0]).all()
    assert np.isfinite(gradient[1:]).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_rows_without_a_distribution_are_nan_as_in_torch(value):
    logits, labels = case(2, 11)
    logits[0] = value
    assert np.isnan(exact(logits, labels)[0])
    assert np.isnan(ours(kernel(), logits, labels)[0])


@pytest.mark.parametrize(
    ("label", "mode"), [(11, "pynative"), (-1, "pynative"), (2**31 - 1, "pynative"), (-1, "graph")]
)
@pytest.mark.parametrize("path", PATHS)
def test_a_label_that_is_no_class_stops(path, label, mode):
    logits, labels = case(7, 11)
    labels[3] = label
    with pytest.raises(IndexError):
        F.cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels).long())
    with execution(MODES[mode]), pytest.raises(RuntimeError):
        kernel(path)(Tensor(logits), Tensor(labels)).asnumpy()


@pytest.mark.parametrize("mode", MODES)
def test_a_label_that_does_not_fit_is_said_in_words(mode):
    """In Graph mode too, where MindSpore waits for seconds before it raises: the others are said in PyNative alone."""
    logits, labels = case(7, 11)
    labels[3] = 11
    refused = r"cross_entropy: .* no class; got float32 \(7, 11\), int32 \(7\)"
    with execution(MODES[mode]), pytest.raises(RuntimeError, match=refused):
        kernel()(Tensor(logits), Tensor(labels)).asnumpy()


def test_dtypes_and_shapes_that_do_not_fit_are_said_in_words():
    logits, labels = case(7, 11)
    with pytest.raises(RuntimeError, match=r"dtypes; got float32 \(7, 11\), int64 \(7\)"):
        kernel()(Tensor(logits), Tensor(labels.astype(np.int64))).asnumpy()
    with pytest.raises(RuntimeError, match=r"shapes .*got float32 \(7, 11\), int32 \(6\)"):
        kernel()(Tensor(logits), Tensor(labels[:6])).asnumpy()


@pytest.mark.parametrize("labels", [np.zeros(6, np.int32), np.zeros((7, 1), np.int32), np.zeros(7, np.int64)])
def test_labels_of_another_shape_or_dtype_stop(labels):
    with pytest.raises(RuntimeError):
        kernel()(Tensor(normal(7, 11)), Tensor(labels)).asnumpy()


# The classes shared by ranks, which one process plays one after the other.


def shared(path: str, logits: np.ndarray, labels: np.ndarray, ranks: int) -> tuple[float, np.ndarray]:
    """The loss from what each rank says of each row, and the gradients of their shares beside each other."""
    width, classes = logits.shape[1] // ranks, logits.shape[1]
    with override("cross_entropy_share", path):
        parts = [kernels.cross_entropy_share(first=r * width, classes=classes) for r in range(ranks)]
    shares = [Tensor(np.ascontiguousarray(logits[:, r * width : (r + 1) * width])) for r in range(ranks)]
    tops, sums, label = np.stack([p(x, Tensor(labels)).asnumpy() for p, x in zip(parts, shares, strict=True)], -1
                                 ).transpose(1, 0, 2).astype(np.float64)  # fmt: skip
    top, counts = tops.max(-1), labels != -100
    log_sum = np.log(np.exp(tops - top[:, None] + sums).sum(-1))
    saved = Tensor(np.stack([top, log_sum], -1).astype(np.float32))
    gradients = [p.gradient(x, Tensor(labels), saved, Tensor(3.0, ms.float32)).asnumpy()
                 for p, x in zip(parts, shares, strict=True)]  # fmt: skip
    return (log_sum + top - label.sum(-1))[counts].mean(), np.concatenate(gradients, -1)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("rows", "classes", "ranks"), [(7, 12, 2), (5, 66, 3), (4, 2500, 4), (3, 6, 6)])
def test_ranks_that_share_the_classes(path, rows, classes, ranks):
    logits, labels = case(rows, classes)
    assert error(shared(path, logits, labels, ranks), exact(logits, labels)) <= 1
    logits[:, : classes // ranks] = -np.inf  # a rank of which every class is ruled out
    labels[labels >= 0] = classes - 1
    assert error(shared(path, logits, labels, ranks), exact(logits, labels)) <= 1


@pytest.mark.parametrize("path", PATHS)
def test_the_label_of_another_rank_is_none_of_this_one_s(path):
    """The negative control: one that every rank takes for its own."""
    logits, labels = case(7, 12)
    with override("cross_entropy_share", path):
        first = kernels.cross_entropy_share(first=0, classes=12)
    own = (labels >= 0) & (labels < 6)
    said = first(Tensor(logits[:, :6].copy()), Tensor(labels)).asnumpy()[:, 2]
    np.testing.assert_array_equal(said, np.where(own, logits[np.arange(7), np.where(own, labels, 0)], 0))
    assert not error(shared(path, logits, np.where(labels >= 6, labels - 6, labels), 2), exact(logits, labels)) <= 1


@pytest.mark.parametrize("label", [12, -1])
@pytest.mark.parametrize("path", PATHS)
def test_a_label_that_is_no_class_of_any_rank_stops_each(path, label):
    logits, labels = case(7, 12)
    labels[3] = label
    for first in (0, 6):
        with override("cross_entropy_share", path), pytest.raises(RuntimeError):
            kernels.cross_entropy_share(first=first, classes=12)(Tensor(logits[:, :6].copy()), Tensor(labels)).asnumpy()


FAULTS = {
    "no rescaling": ("std::exp((double)top - higher)", "1"),
    "a label's logit kept": ("dx[label] -= scale", "dx[label] -= 0"),
    "divided by all rows": ("const float scale = *call.at(4) / count", "const float scale = *call.at(4) / rows"),
    "gradient from above lost": ("const float scale = *call.at(4) / count", "const float scale = 1.f / count"),
    "a tail left out": ("if (i < n) sums +=", "if (false) sums +="),
    # set to 0, not left out: what lies in that memory may be the right numbers of an earlier run
    "a tail of the gradient is 0": ("if (i < n) store_part(dx + i, scale", "if (i < n) store_part(dx + i, 0 * scale"),
    "ignored rows counted": ("total / count", "total / rows"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault):
    logits, labels = case(4, 2501)
    logits = logits / 9 + np.linspace(0, 30, 2501, dtype=np.float32)
    with planted("cross_entropy.cc", *FAULTS[fault]):
        assert not error(ours(kernel(), logits, labels), exact(logits, labels)) <= 2  # NaN is seen too
    assert error(ours(kernel(), logits, labels), exact(logits, labels)) <= 1


@pytest.mark.parametrize("mode", MODES)
def test_the_next_token_is_predicted_by_all_before_it(pair, mode):
    """The last position predicts nothing, so its label is one that does not count."""
    it, ids = pair("llama"), token_ids(9)
    labels = np.where(np.arange(9) % 5 == 3, -100, ids).astype(np.int32)
    with execution(MODES[mode]):
        got = NextTokenLoss(it.ours())(Tensor(ids), Tensor(labels)).asnumpy().item()
    assert got == pytest.approx(it.loss_and_gradients(ids, labels)[0], rel=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_a_single_token_has_no_next_one(pair, mode):
    ids = token_ids(1)
    with execution(MODES[mode]):
        assert np.isnan(NextTokenLoss(pair("llama").ours())(Tensor(ids), Tensor(ids)).asnumpy())
