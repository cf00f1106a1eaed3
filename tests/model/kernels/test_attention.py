"""The C++ attention and the reference against float64; then the C++ functions alone, called as MindSpore calls them."""

from __future__ import annotations

import ctypes
import shutil
from functools import partial

import mindspore as ms
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore import Tensor

from mindport.errors import UsageError
from mindport.model import kernels
from mindport.model.kernels import library, override
from mindport.model.kernels.attention import Cpu
from tests.model.kernels.cases import attention, make_attention, normal
from tests.model.kernels.exactness import exact, ours, relative, worst
from tests.model.kernels.hashes import factors, keep, place

PATHS = ("cpu", "reference")
SHAPE = {"batch": 2, "tokens": 70, "keys": 70, "heads": 4, "kv_heads": 2, "dim": 16}
CASES = {
    **{f"{n} tokens": {"tokens": n, "keys": n} for n in (1, 7, 64, 65, 129)},
    "1000 tokens": {"tokens": 1000, "keys": 1000, "heads": 2, "batch": 1},
    "blocks within a window": {"tokens": 300, "keys": 300, "window": 200, "batch": 1},
    "blocks after a cache, partly padding": {"tokens": 260, "keys": 400, "lengths": (300, 390)},
    **{f"head_dim {n}": {"dim": n} for n in (8, 24, 64, 80, 128, 256)},
    "one kv head": {"kv_heads": 1},
    "a kv head for each": {"kv_heads": 4},
    "three heads for each": {"heads": 9, "kv_heads": 3},
    **{f"window {n}": {"window": n} for n in (1, 2, 16, 65)},
    "after a cache": {"keys": 131},
    "after a cache, in a window": {"keys": 131, "window": 30},
    "one token after a cache": {"tokens": 1, "keys": 201},
    "one token after a cache, in a window": {"tokens": 1, "keys": 201, "window": 50},
    "one wide token after a cache": {"tokens": 1, "keys": 33, "dim": 80},
    "three tokens before and amid all keys": {"tokens": 3, "keys": 40, "offset": -1},
    "four tokens, two of them padding": {"tokens": 4, "keys": 40, "offset": 30, "lengths": (32, 35)},
    "one token amid a cache": {"tokens": 1, "keys": 201, "offset": 77},
    "amid a cache, in a window": {"keys": 200, "offset": 33, "window": 9},
    "the first queries before all keys": {"offset": -5},
    "all queries before all keys": {"offset": -70},
    "all keys left behind the window": {"keys": 80, "offset": 90, "window": 11},
    "some keys left behind the window": {"keys": 80, "offset": 40, "window": 11},
    "lengths": {"lengths": (70, 33)},
    "lengths in a window": {"lengths": (1, 64), "window": 5},
    "all padding": {"lengths": (0, 70)},
    "lengths amid a cache": {"keys": 99, "offset": 20, "lengths": (40, 88)},
    "dropout": {"dropout": 0.25},
    "dropout of one token": {"dropout": 0.25, "tokens": 1, "keys": 90},
    "dropout of a whole block of keys": {"dropout": 0.1, "tokens": 300, "keys": 300, "batch": 1},
    "dropout amid a cache, in a window": {"dropout": 0.5, "keys": 200, "offset": 33, "window": 9},
    "dropout and lengths": {"dropout": 0.1, "heads": 6, "dim": 24, "lengths": (70, 33)},
}
OFTEN = ("65 tokens", "window 16", "amid a cache, in a window", "lengths", "three heads for each", "dropout")


def inputs(batch, tokens, keys, heads, kv_heads, dim, **_):
    kv = (batch, keys, kv_heads, dim)
    return normal(batch, tokens, heads, dim), normal(*kv, seed=1), normal(*kv, seed=2)


def split(changes):
    """A case as (shape, settings of the cell, arguments of its call); what it drops is `drop`."""
    shape = {**SHAPE, **{key: value for key, value in changes.items() if key in SHAPE}}
    return shape, changes.get("window"), changes.get("offset"), changes.get("lengths")


class Called(ms.nn.Cell):
    """The kernel with the arguments that have no gradient."""

    def __init__(self, kernel, offset, lengths):
        super().__init__()
        self.kernel, self.offset = kernel, offset
        self.lengths = None if lengths is None else Tensor(lengths, ms.int32)

    def construct(self, q, k, v):
        return self.kernel(q, k, v, self.offset, self.lengths)


def built(path, changes, **more):
    shape, window, offset, lengths = split(changes)
    drop = {"dropout": drop_of(changes), "place": place()}
    with override("attention", path), override("dropout", path):
        kernel = make_attention(**{**sizes(shape), "window": window, **drop, **more})
    return Called(kernel, offset, lengths).set_train(drop["dropout"] > 0)


def drop_of(changes):
    return changes.get("dropout", 0.0)


def sizes(shape):
    return {"heads": shape["heads"], "kv_heads": shape["kv_heads"], "head_dim": shape["dim"], "scale": scale(shape)}


def scale(shape):
    return shape["dim"] ** -0.5


def expectation(changes):
    shape, window, offset, lengths = split(changes)
    tensors = inputs(**shape)
    rows = shape["batch"] * shape["heads"] * shape["tokens"]
    dropped = factors(rows, shape["keys"], drop_of(changes)) if drop_of(changes) else None
    formula = partial(attention, scale=scale(shape), window=window, offset=offset, lengths=lengths, dropped=dropped)
    return tensors, *exact(formula, tensors, 3)


def check(kernel, changes, mode=ms.PYNATIVE_MODE):
    tensors, expected, gradients, weight = expectation(changes)
    got, got_gradients = ours(kernel, tensors, 3, weight, mode)
    held(got, expected, got_gradients, gradients)


def held(got, expected, got_gradients, gradients):
    assert relative(got, expected) <= 2e-6
    if any(x.any() for x in gradients):
        assert worst(got_gradients, gradients) <= 1e-5
    else:
        assert not any(x.any() for x in got_gradients)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("path", PATHS)
def test_value_and_gradients(path, name):
    check(built(path, CASES[name]), CASES[name])


@pytest.mark.parametrize(("path", "name"), [*(("cpu", name) for name in OFTEN), ("reference", "lengths")])
def test_graph_mode_computes_the_same(path, name):
    check(built(path, CASES[name]), CASES[name], ms.GRAPH_MODE)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_recomputation_computes_the_same(mode):
    kernel = built("cpu", CASES["lengths"])
    kernel.kernel.recompute()
    check(kernel, CASES["lengths"], mode)


@pytest.mark.parametrize("fault", [{"scale": 0.26}, {"window": 17}, {"window": None}])
def test_a_wrong_setting_is_seen(fault):
    tensors, expected, *_ = expectation(CASES["window 16"])
    assert relative(built("cpu", CASES["window 16"], **fault)(*map(Tensor, tensors)).asnumpy(), expected) > 2e-5


@pytest.mark.parametrize("path", PATHS)
def test_an_offset_may_be_a_tensor_and_the_unwritten_tail_is_not_seen(path):
    shape = {**SHAPE, "tokens": 3, "keys": 90}
    q, k, v = inputs(**shape)
    k[:, 44:] = v[:, 44:] = 1e4
    formula = partial(attention, scale=scale(shape), offset=41)
    expected, *_ = exact(formula, (q, k, v), 3)
    got = built(path, {**shape, "offset": Tensor(41, ms.int32)})(*map(Tensor, (q, k, v))).asnumpy()
    assert relative(got, expected) <= 2e-6


@pytest.mark.parametrize("changes", [{"kv_heads": 4}, {"kv_heads": 0}, {"head_dim": -8}, {"window": 0}], ids=str)
def test_numbers_that_make_no_attention_stop(changes):
    with pytest.raises(UsageError):
        kernels.attention(**{"heads": 6, "kv_heads": 3, "head_dim": 8, "scale": 1.0, "dropout": 0.0,
                             "dtype": "float32", **changes})  # fmt: skip


def test_nothing_is_read_beyond_the_last_key_that_is_seen():
    q, k, v = inputs(**{**SHAPE, "tokens": 1, "keys": 90})
    k[:, 42:] = v[:, 42:] = np.nan
    assert np.isfinite(built("cpu", {"tokens": 1, "keys": 90, "offset": 41})(*map(Tensor, (q, k, v))).asnumpy()).all()


@pytest.mark.parametrize("which", range(3))
def test_a_nan_is_not_swallowed(which):
    tensors = inputs(**SHAPE)
    tensors[which][0, 0, 0, 0] = np.nan
    assert np.isnan(built("cpu", {})(*map(Tensor, tensors)).asnumpy()[0, 0, 0]).any()


def test_weights_are_dropped_in_training_only():
    tensors = [Tensor(x) for x in inputs(**SHAPE)]
    kernel, still = built("cpu", {}, dropout=0.5, place=place()), built("cpu", {})(*tensors).asnumpy()
    assert isinstance(kernel.kernel, Cpu)
    np.testing.assert_array_equal(kernel(*tensors).asnumpy(), still)
    assert np.abs(kernel.set_train()(*tensors).asnumpy() - still).max() > 0.1


@pytest.mark.parametrize("path", PATHS)
def test_processes_that_share_batch_and_heads_drop_what_one_would(path):
    changes = {"dropout": 0.25, "batch": 4, "tokens": 5, "keys": 9}
    tensors, expected, gradients, weight = expectation(changes)
    mine = [x[2:, :, x.shape[2] // 2 :] for x in (*tensors, expected, *gradients, weight)]
    kernel = built(path, {**changes, "heads": 2, "kv_heads": 1}, place=place(part=1, shares=2, share=1))
    got, got_gradients = ours(kernel, mine[:3], 3, mine[-1], ms.PYNATIVE_MODE)
    held(got, mine[3], got_gradients, mine[4:7])


def test_half_precision_is_computed_by_the_reference():
    """Mixed precision casts what a kernel made for float32 is given."""
    tensors, expected, *_ = expectation({})
    got = built("cpu", {})(*(Tensor(x, ms.float16) for x in tensors))
    assert got.dtype == ms.float16
    assert relative(got.asnumpy(), expected) < 5e-3


# The functions of the library, called directly.

GUARD = 64  # floats before and after each array, which must stay as they are


def call(function, *arrays, where=None):
    """Its status."""
    count = len(arrays)
    shapes = [(ctypes.c_int64 * max(1, x.ndim))(*x.shape) for x in arrays]
    return getattr(ctypes.CDLL(str(where or library.library())), f"{function}_status")(
        count, (ctypes.c_void_p * count)(*(x.ctypes.data for x in arrays)),
        (ctypes.c_int * count)(*(x.ndim for x in arrays)),
        (ctypes.POINTER(ctypes.c_int64) * count)(*(ctypes.cast(x, ctypes.POINTER(ctypes.c_int64)) for x in shapes)),
        (ctypes.c_char_p * count)(*(str(x.dtype).encode() for x in arrays)), None, None,
    )  # fmt: skip


def guarded(like):
    """An array for a result, unset, between guards that `broken` looks at."""
    whole = np.full(like.size + 2 * GUARD, np.nan, np.float32)
    return whole[GUARD : GUARD + like.size].reshape(like.shape)


def broken(array):
    whole = array.base
    return not (np.isnan(whole[:GUARD]).all() and np.isnan(whole[-GUARD:]).all())


def constants(changes):
    shape, window, offset, lengths = split(changes)
    return (np.array(scale(shape), np.float32), np.array(window or Cpu.END, np.int32),
            np.array(Cpu.ALIGNED if offset is None else offset, np.int32),
            np.array([Cpu.END] if lengths is None else lengths, np.int32), *keep(drop_of(changes)))  # fmt: skip


def both_ways(changes, where=None):
    """(output, its logarithms, gradients of q, k and v) for the weight of `exact`, and what they should be."""
    (q, k, v), expected, gradients, weight = expectation(changes)
    out, log_sum = guarded(q), guarded(q[..., 0].transpose(0, 2, 1))
    assert call("attention", q, k, v, *constants(changes), out, log_sum, where=where) == 0
    made = [guarded(x) for x in (q, k, v)]
    assert call("attention_grad", q, k, v, *constants(changes), out, log_sum, weight, *made, where=where) == 0
    return (out, log_sum, *made), expected, gradients


@st.composite
def problems(draw):
    kv_heads, keys, batch = draw(st.integers(1, 3)), draw(st.integers(1, 150)), draw(st.integers(1, 2))
    lengths = st.tuples(*[st.integers(0, keys + 2)] * batch)
    return {
        "batch": batch, "tokens": draw(st.integers(1, keys)), "keys": keys, "kv_heads": kv_heads,
        "heads": kv_heads * draw(st.integers(1, 3)), "dim": 8 * draw(st.integers(1, 12)),
        "window": draw(st.none() | st.integers(1, keys + 2)), "offset": draw(st.none() | st.integers(-5, keys + 20)),
        "lengths": draw(st.none() | lengths), "dropout": draw(st.sampled_from((0.0, 0.2))),
    }  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(problems())
def test_any_shape_is_right_and_nothing_else_is_written(changes):
    results, expected, gradients = both_ways(changes)
    assert not any(map(broken, results))
    assert not any(np.isnan(x).any() for x in results)
    held(results[0], expected, results[2:], gradients)


@settings(max_examples=15, deadline=None)
@given(problems())
def test_any_shape_is_the_reference_s(changes):
    tensors = [Tensor(x) for x in inputs(**split(changes)[0])]
    got, expected = (built(path, changes)(*tensors).asnumpy() for path in PATHS)
    assert relative(got, expected) <= 4e-6


@pytest.mark.parametrize("name", [*OFTEN, "1000 tokens"])
def test_threads_do_not_change_a_bit(name):
    openmp = ctypes.CDLL("libgomp.so.1")
    before, results = openmp.omp_get_max_threads(), []
    for threads in (1, 2, 3, 2):
        openmp.omp_set_num_threads(threads)
        results.append(both_ways(CASES[name])[0])
    openmp.omp_set_num_threads(before)
    for other in results[1:]:
        for one, another in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize("tokens", [1, 70])
def test_scores_that_are_all_minus_infinity_are_not_taken_for_none(tokens):
    shape = {**SHAPE, "tokens": tokens}
    q, k, v = inputs(**shape)
    q, k = np.full_like(q, -np.inf), np.abs(k)
    out, log_sum = guarded(q), guarded(q[..., 0].transpose(0, 2, 1))
    assert call("attention", q, k, v, *constants(shape), out, log_sum) == 0
    made = [guarded(x) for x in (q, k, v)]
    assert call("attention_grad", q, k, v, *constants(shape), out, log_sum, np.ones_like(q), *made) == 0
    assert all(np.isnan(x).all() for x in (out, made[0]))
    assert np.isnan(made[2]).any()


def test_rounding_of_huge_scores_makes_no_weight_above_1():
    q, k, v = inputs(**SHAPE)
    q, k = q * 1e9, k * 1e9
    out, log_sum = guarded(q), guarded(q[..., 0].transpose(0, 2, 1))
    assert call("attention", q, k, v, *constants(SHAPE), out, log_sum) == 0
    made = [guarded(x) for x in (q, k, v)]
    assert call("attention_grad", q, k, v, *constants(SHAPE), out, log_sum, np.ones_like(q), *made) == 0
    assert np.abs(out).max() <= np.abs(v).max() * 1.0001
    assert 0 <= made[2].min()
    assert made[2].max() <= SHAPE["heads"] // SHAPE["kv_heads"] * SHAPE["tokens"]


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (lambda a: a[:-1], 11),
        (lambda a: [a[0], a[1][:, :-1], *a[2:]], 12),  # fewer keys than values
        (lambda a: [a[0][..., :12], a[1][..., :12], a[2][..., :12], *a[3:9], a[9][..., :12], a[10]], 12),
        (lambda a: [a[0][:, :, :3], *a[1:9], a[9][:, :, :3], a[10][:, :3]], 12),  # 3 heads, 2 kv heads
        (lambda a: [*a[:4], np.int32(0), *a[5:]], 12),  # a window without keys
        (lambda a: [*a[:6], np.zeros(3, np.int32), *a[7:]], 12),  # three lengths for two sequences
        (lambda a: [*a[:7], np.zeros(3, np.int32), *a[8:]], 12),  # a state of three numbers
        (lambda a: [*a[:8], np.array([0, 1 << 24, 0, 1, 0], np.int32), *a[9:]], 12),  # nothing would be kept
        (lambda a: [*a[:8], np.array([0, 9, 0, 2, 2], np.int32), *a[9:]], 12),  # a share beyond the last
        (lambda a: [*a[:10], a[10][:, :, :-1]], 12),
        (lambda a: [*a[:4], np.float32(1), *a[5:]], 13),
        (lambda a: [a[0].astype(np.float64), *a[1:]], 13),
    ],
)
def test_a_wrong_call_is_an_error_not_a_stray_write(wrong, status):
    q, k, v = inputs(**SHAPE)
    arrays = wrong([q, k, v, *constants({}), np.empty_like(q), np.empty((2, 4, 70), np.float32)])
    assert call("attention", *(np.ascontiguousarray(x) for x in arrays)) == status


# text of a source, what stands there instead, the case that sees it, and in which result
DROPS = {"dropout": 0.25}
FAULTS = {
    "a mask one key wide": ("attention_shape.h", "query + offset - key, far", "query + offset - key + 1, far", {}, 0),
    "no rescaling": ("attention.cc", "    rescale(c, high);", "    top[c] = high;", {"tokens": 200, "keys": 200}, 0),
    "the order of heads": ("attention.cc", "kv = h / p.group()", "kv = h % p.kv_heads", {}, 0),
    "the sum of out · d_out": ("attention_grad.cc", "sum += out[d] * d_out[d]", "sum += out[d]", {}, 2),
    "a head of the group left out": ("attention_grad.cc", "h < (kv + 1)", "h + 1 < (kv + 1)", {}, 3),
    "another mask in the second vector": ("attention.cc", "counted(first + c * LANES)", "counted(first)", DROPS, 0),
    "another mask for the gradient": ("attention_grad.cc", "begin + c * LANES);", "begin + c * LANES + 1);", DROPS, 2),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_planted_in_the_kernel_is_seen(fault, tmp_path, monkeypatch):
    name, right, wrong, changes, which = FAULTS[fault]
    for source in library.SOURCES.iterdir():
        if source.suffix == ".h" or source.name.startswith("attention"):
            shutil.copy(source, tmp_path)
    text = (tmp_path / name).read_text()
    assert text.count(right) == 1
    (tmp_path / name).write_text(text.replace(right, wrong))
    monkeypatch.setattr(library, "SOURCES", tmp_path)
    monkeypatch.setattr(library, "FLAGS", [flag.replace("-O3", "-O0") for flag in library.FLAGS])
    library._compile(library._compiler(), tmp_path / "wrong.so")
    results, expected, gradients = both_ways(changes, tmp_path / "wrong.so")
    assert relative((results[0], None, *results[2:])[which], (expected, None, *gradients)[which]) > 1e-3
