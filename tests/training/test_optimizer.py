"""AdamW on every path and in both modes against torch.optim.AdamW, over 200 steps."""

from __future__ import annotations

import functools

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Parameter, Tensor, nn, ops

from mindport.errors import UsageError
from mindport.model.kernels import override
from mindport.model.kernels.adamw import Correction
from mindport.training import AdamW
from tests.model.kernels.planted import OTHER_CPUS, planted
from tests.model.reference import MODES, execution

torch.set_num_threads(1)
SHAPES = {"table": (130, 131), "norm": (33,), "one": (1,), "cube": (3, 5, 7)}  # the first is two pieces of work
STEPS, LR, LIMIT = 200, 1e-3, 1e-6
SETTINGS = {"betas": (0.9, 0.995), "eps": 1e-6, "weight_decay": 0.1}


@functools.cache
def start() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        name: generator.standard_normal(shape).astype(np.float32) * np.float32(0.05) for name, shape in SHAPES.items()
    }


@functools.cache
def gradients(step: int) -> tuple[np.ndarray, ...]:
    """Some steps have very small ones, beside which ε is large."""
    generator, size = np.random.default_rng(step + 1), 0.1 if step % 3 else 1e-5
    return tuple(generator.standard_normal(shape).astype(np.float32) * np.float32(size) for shape in SHAPES.values())


@functools.cache
def expected(kind: type = torch.optim.AdamW, steps: int = STEPS, **changes) -> tuple[np.ndarray, ...]:
    weights = {name: torch.nn.Parameter(torch.from_numpy(value.copy())) for name, value in start().items()}
    matrices = [w for w in weights.values() if w.ndim > 1]
    others = {"params": [w for w in weights.values() if w.ndim == 1], "weight_decay": 0.0}
    optimizer = kind([{"params": matrices}, others], lr=LR, **{**SETTINGS, **changes})
    for step in range(steps):
        for weight, gradient in zip(weights.values(), gradients(step), strict=True):
            weight.grad = torch.from_numpy(gradient)
        optimizer.step()
    return tuple(weight.detach().numpy() for weight in weights.values())


def make(path: str = "cpu", **changes) -> AdamW:
    weights = [Parameter(Tensor(value), name=name) for name, value in start().items()]
    with override("adamw", path):
        return AdamW(weights, **{**SETTINGS, **changes})


class Call(nn.Cell):
    """Gradients one by one: as a tuple from outside they would be constants, and each step another graph."""

    def __init__(self, optimizer: AdamW) -> None:
        super().__init__(auto_prefix=False)
        self.optimizer = optimizer

    def construct(self, lr, scale, *gradients):
        return self.optimizer(gradients, lr, scale)


def run(optimizer: AdamW, steps: range = range(STEPS), scale: float = 1.0) -> tuple[np.ndarray, ...]:
    call = Call(optimizer)
    for step in steps:
        call(Tensor(LR, ms.float32), Tensor(scale, ms.float32), *map(Tensor, gradients(step)))
    return tuple(weight.asnumpy().copy() for weight in optimizer.weights)


def difference(got, wanted) -> float:
    return max(np.abs(one - other).max() for one, other in zip(got, wanted, strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["cpu", "reference", "ascend"])  # the Ascend operator is one that a CPU has too
def test_200_steps_equal_torch(path, mode):
    with execution(MODES[mode]):
        assert difference(run(make(path)), expected()) <= LIMIT


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["cpu", "reference"])
@pytest.mark.parametrize("betas", [(0.0, 0.995), (0.9, 0.0)])
def test_a_mean_of_its_last_value_alone(betas, path, mode):
    """ln 0 is no number; with β2 = 0 a step has the size of m / |gradient|, and its digits."""
    with execution(MODES[mode]):
        assert difference(run(make(path, betas=betas), range(3)), expected(steps=3, betas=betas)) <= 3 * LIMIT


@pytest.mark.parametrize("compiler", OTHER_CPUS)
def test_shorter_vectors(compiler):
    with planted("adamw.cc", compiler=compiler):
        assert difference(run(make()), expected()) <= LIMIT


FAULTS = {
    "no bias correction of the mean": ("c1 = 1 - std::pow(beta1, step)", "c1 = 1"),
    "no bias correction of the square": ("c2 = 1 - std::pow(beta2, step)", "c2 = 1"),
    "eps under the root": ("std::sqrt(v[i]) * r.root + r.eps", "std::sqrt(v[i] + r.eps) * r.root"),
    "eps before the correction": ("std::sqrt(v[i]) * r.root + r.eps", "(std::sqrt(v[i]) + r.eps) * r.root"),
    "decay after the step": (
        "p[i] = keep * p[i] - r.size * m[i] / (std::sqrt(v[i]) * r.root + r.eps)",
        "p[i] = keep * (p[i] - r.size * m[i] / (std::sqrt(v[i]) * r.root + r.eps))",
    ),
    "no decay": ("keep * p[i]", "p[i]"),
    "decay of everything": ("call.at(decay)[k]", "call.at(decay)[0]"),
    "the first piece only": ("call.at(k) + from, call", "call.at(k), call"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault):
    with planted("adamw.cc", *FAULTS[fault]):
        assert difference(run(make()), expected()) > 2 * LIMIT


def test_it_is_not_adam_with_l2():
    assert difference(run(make()), expected(torch.optim.Adam)) > 100 * LIMIT


@pytest.mark.parametrize("path", ["cpu", "reference", "ascend"])
def test_the_scale_multiplies_the_gradients(path):
    scaled, unscaled = make(path), make(path)
    got = run(scaled, range(5), scale=0.25)
    for step in range(5):
        unscaled(tuple(Tensor(g * np.float32(0.25)) for g in gradients(step)), Tensor(LR, ms.float32), Tensor(1.0))
    assert difference(got, [weight.asnumpy() for weight in unscaled.weights]) <= 1e-7


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["cpu", "reference", "ascend"])
def test_a_scale_that_is_not_finite_moves_nothing(path, mode):
    """Whatever the gradients are, in the first step and later; the others are as if it had not been."""
    with execution(MODES[mode]):
        optimizer = make(path)
        call, parameters = Call(optimizer), (*optimizer.weights, *optimizer.state)
        for step in range(3):
            kept = [p.asnumpy().copy() for p in parameters]
            for scale in (np.nan, np.inf):
                bad = [Tensor(np.full(shape, scale, np.float32)) for shape in SHAPES.values()]
                call(Tensor(LR, ms.float32), Tensor(scale, ms.float32), *bad)
            assert all(np.array_equal(p.asnumpy(), value) for p, value in zip(parameters, kept, strict=True))
            call(Tensor(LR, ms.float32), Tensor(1.0, ms.float32), *map(Tensor, gradients(step)))
    assert difference([w.asnumpy() for w in optimizer.weights], expected(steps=3)) <= 3 * LIMIT


class Watch(nn.Cell):
    """A weight as it is read before and after the step, in one graph."""

    def __init__(self, optimizer: AdamW) -> None:
        super().__init__(auto_prefix=False)
        self.optimizer, self.weight = optimizer, optimizer.weights[0]

    def construct(self, *gradients):
        before = self.weight * 1.0
        self.optimizer(gradients, Tensor(LR), Tensor(1.0))
        return before, self.weight * 1.0


def watched(optimizer: AdamW) -> bool:
    """Whether three steps are each seen by what comes after them and by nothing before."""
    watch, seen = Watch(optimizer), [start()["table"]]
    for step in range(3):
        before, after = (x.asnumpy().copy() for x in watch(*map(Tensor, gradients(step))))
        if not np.array_equal(before, seen[-1]) or np.array_equal(before, after):
            return False
        seen.append(after)
    return np.array_equal(seen[-1], optimizer.weights[0].asnumpy())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["cpu", "reference", "ascend"])
def test_what_is_written_in_place_keeps_its_place_among_reads(path, mode):
    with execution(MODES[mode]):
        assert watched(make(path))


def test_without_its_mark_graph_mode_moves_it():
    optimizer = make()
    optimizer.update.update.add_prim_attr("side_effect_mem", False)
    with execution(ms.GRAPH_MODE):
        assert not watched(optimizer)


@pytest.mark.parametrize("mode", MODES)
def test_a_state_put_back_goes_on_to_the_same_bits(mode):
    """Into the optimizer that has run on, and into a new one."""
    with execution(MODES[mode]):
        optimizer, other = make(), make()
        run(optimizer, range(10))
        kept = [p.asnumpy().copy() for p in (*optimizer.weights, *optimizer.state)]
        wanted = run(optimizer, range(10, 20))
        for target in (optimizer, other):
            for parameter, value in zip((*target.weights, *target.state), kept, strict=True):
                ops.assign(parameter, Tensor(value))
            assert difference(run(target, range(10, 20)), wanted) == 0
        assert [int(target.step.asnumpy()) for target in (optimizer, other)] == [20, 20]


def test_nan_is_not_hidden():
    optimizer = make()
    bad = [g.copy() for g in gradients(1)]
    bad[0][3, 4] = np.nan
    optimizer(tuple(map(Tensor, bad)), Tensor(LR, ms.float32), Tensor(1.0, ms.float32))
    broken = np.isnan(optimizer.weights[0].asnumpy())
    assert broken[3, 4]
    assert broken.sum() == 1


def test_names_of_the_state():
    optimizer = make()
    names = [f"adam.{mean}.{name}" for mean in "mv" for name in SHAPES]
    assert [p.name for p in optimizer.state] == ["adam.step", *names]
    assert [w.name for w in optimizer.weights] == list(SHAPES)
    assert {p.name for p in optimizer.trainable_params()} == set(SHAPES)
    assert optimizer.step.dtype == ms.int32


def test_the_ascend_path_rescales(monkeypatch):
    """Its operator corrects no bias; this records what it is given in the third step."""
    calls, real = [], ops.AdamWeightDecay()

    def record(*args):
        calls.append([float(x.asnumpy()) if isinstance(x, Tensor) else x for x in args[3:8]])
        return real(*args)

    monkeypatch.setattr(ops, "AdamWeightDecay", lambda: record)
    run(make("ascend"), range(3))
    c1, c2 = 1 - 0.9**3, (1 - 0.995**3) ** 0.5
    assert len(calls) == 3 * len(SHAPES)
    assert calls[8] == pytest.approx([LR * c2 / c1, 0.9, 0.995, 1e-6 * c2, 0.1 * c1 / c2], rel=1e-6)
    assert calls[9][4] == 0  # a norm


@pytest.mark.parametrize(
    "change",
    [
        lambda g: (g[0], Tensor(np.ones(32, np.float32)), *g[2:]),
        lambda g: (g[0], g[1].astype(ms.float16), *g[2:]),
        lambda g: g[:3],
    ],
    ids=["shape", "dtype", "count"],
)
def test_gradients_of_another_shape_dtype_or_number_stop(change):
    given = change(tuple(map(Tensor, gradients(0))))
    with pytest.raises(RuntimeError):
        make()(given, Tensor(LR, ms.float32), Tensor(1.0, ms.float32)).asnumpy()


@pytest.mark.parametrize("steps", [1, 2, 50, 1000, 100_000])
@pytest.mark.parametrize("beta", [0.9, 0.999, 0.99999])
def test_the_correction_keeps_its_digits(beta, steps):
    got = Correction()(Tensor(steps, ms.int32), np.log(beta).item()).asnumpy()
    assert got == pytest.approx(-np.expm1(steps * np.log(beta)), rel=2e-6)  # ops.exp is off by 1e-6


@pytest.mark.parametrize(
    "changes",
    [
        {"betas": (1.0, 0.9)},
        {"betas": (0.9, -0.1)},
        {"eps": -1e-8},
        {"weight_decay": -1.0},
        {"eps": float("nan")},
        {"betas": (0.9,)},
        {"weight_decay": float("inf")},
    ],
)
def test_numbers_that_make_no_optimizer_stop(changes):
    with pytest.raises(UsageError):
        make(**changes)


def test_weights_that_it_cannot_keep_stop():
    with pytest.raises(UsageError, match="no weights"):
        AdamW([])
    with pytest.raises(UsageError, match="float32"):
        AdamW([Parameter(Tensor(np.ones(2, np.float16)), name="half")])
