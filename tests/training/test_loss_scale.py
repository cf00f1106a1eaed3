"""The loss scale's course, and a step that overflows, against torch.amp.GradScaler."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Parameter, Tensor, nn, ops

from mindport.errors import UsageError
from mindport.model import NextTokenLoss, Precision
from mindport.training import AdamW, Cosine, LossScale, TrainStep
from mindport.training.config import PrecisionConfig
from tests.model.kernels.planted import planted
from tests.model.reference import MODES, execution
from tests.training import small

INITIAL, WINDOW, OVERFLOWS = 2.0**10, 2, (3, 4)
LIMIT = 1e-5


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return small.pair("llama", tmp_path_factory.mktemp("llama"))


def theirs(course: list[bool], initial: float, window: int) -> list[tuple[float, int]]:
    """Scale and good steps after each step, torch's."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=initial, growth_interval=window)
    found = []
    for finite in course:
        weight.grad = scaler.scale(torch.ones(1)) if finite else torch.full((1,), math.inf)
        scaler.step(optimizer)
        scaler.update()
        found.append((scaler.get_scale(), scaler._get_growth_tracker()))
    return found


def ours(course: list[bool], initial: float, window: int) -> list[tuple[float, int]]:
    scaling, found = LossScale(initial, window), []
    for finite in course:
        scaling(Tensor(finite))
        found.append(tuple(p.asnumpy().item() for p in scaling.state))
    return found


def random_course() -> list[bool]:
    return (np.random.default_rng(0).random(80) > 0.2).tolist()


@pytest.mark.parametrize("mode", MODES)
def test_the_course_equals_torch(mode):
    with execution(MODES[mode]):
        assert ours(random_course(), 2.0**16, 3) == theirs(random_course(), 2.0**16, 3)


def test_it_grows_as_long_as_float32_holds_it():
    assert ours([True] * 3, 2.0**126, 1) == theirs([True] * 3, 2.0**126, 1)


def test_another_window_is_seen():
    assert ours(random_course(), 2.0**16, 4) != theirs(random_course(), 2.0**16, 3)


def test_there_is_nothing_below_one():
    assert [value for value, _ in ours([False] * 4, 3.0, 2)] == [1.5, 1.0, 1.0, 1.0]


class Trap(nn.Cell):
    """A loss times a factor that the test sets: what overflows there overflows in the gradients."""

    def __init__(self, loss: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.loss, self.factor = loss, Parameter(Tensor(1.0, ms.float32), name="trap", requires_grad=False)

    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        return self.loss(ids, labels) * self.factor


def make(pair, fault: tuple[str, str] | None = None, scaling: LossScale | None = None) -> TrainStep:
    model = pair.ours()
    with planted("adamw.cc", *fault) if fault else contextlib.nullcontext():
        optimizer = AdamW(model.trainable_params(), betas=(0.9, 0.95), weight_decay=0.1)
    schedule = Cosine(small.LR, total=small.STEPS, warmup=2)
    return TrainStep(model, Trap(NextTokenLoss(model)), optimizer, schedule, scaling=scaling)


def run(step: TrainStep) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Each step's number, from 1, and what it returned."""
    for i in range(1, small.STEPS + 1):
        ops.assign(step.loss.factor, Tensor(math.inf if i in OVERFLOWS else 1.0, ms.float32))
        batch = small.batch(i)
        yield i, tuple(x.asnumpy().item() for x in step(Tensor(batch.ids), Tensor(batch.labels)))


def moved(step: TrainStep) -> dict[str, np.ndarray]:
    """Everything that an overflow must leave alone."""
    return small.values({p.name: p for p in (*step.optimizer.weights, *step.optimizer.state)})


@pytest.mark.parametrize("mode", MODES)
def test_a_step_that_overflows_equals_torch(pair, mode):
    """Losses, norms, rates and scales of every step, and the weights after all of them."""
    scaler = torch.amp.GradScaler("cpu", init_scale=INITIAL, growth_interval=WINDOW)
    reference, scaling = small.Torch(pair, scaler), LossScale(INITIAL, WINDOW)
    with execution(MODES[mode]):
        step = make(pair, scaling=scaling)
        before = moved(step)
        for i, got in run(step):
            wanted = reference.step(small.batch(i), math.inf if i in OVERFLOWS else 1.0)
            if i in OVERFLOWS:
                assert small.furthest(moved(step), before) == 0
                assert not math.isfinite(got[1])
                assert got[2] == pytest.approx(wanted[2])
            else:
                assert got == pytest.approx(wanted, rel=LIMIT)
            assert scaling.value.asnumpy() == scaler.get_scale()
            before = moved(step)
        assert len(step.compile_cache) == (mode == "graph")
    assert small.furthest({w.name: before[w.name] for w in step.optimizer.weights}, reference.weights) <= LIMIT
    assert step.optimizer.step.asnumpy() == small.STEPS - len(OVERFLOWS)


def test_a_loss_scale_changes_no_number(pair):
    """A power of two: what float32 holds either way has the same digits."""
    for (_, plain), (i, scaled) in zip(run(make(pair)), run(make(pair, scaling=LossScale(INITIAL))), strict=True):
        assert i in OVERFLOWS or plain == scaled


def test_without_a_scale_nothing_moves_either(pair):
    """A norm that is no number says so; the weights are still there to look at."""
    step = make(pair)
    before = moved(step)
    for i, (loss, norm, _) in run(step):
        assert math.isfinite(norm) == (i not in OVERFLOWS) == math.isfinite(loss)
        assert (small.furthest(moved(step), before) == 0) == (i in OVERFLOWS)
        before = moved(step)
    assert all(np.isfinite(value).all() for value in before.values())


def test_an_optimizer_that_moves_all_the_same_is_seen(pair, compiler):
    step = make(pair, fault=("if (!std::isfinite(scale)) return OK;", ""))
    for _ in run(step):
        pass
    assert not all(np.isfinite(value).all() for value in moved(step).values())


def test_float16_finds_its_scale(pair):
    """From one that is far too large: some steps are skipped, and then it learns; without a scale it would, too."""
    level = Precision("O1", "float16")
    stepper = small.stepper(pair, level, precision=PrecisionConfig("O1", "float16", 2.0**20, 100), steps=30)
    records = [stepper.step([small.batch(0)]) for _ in range(12)]
    skipped = [record for record in records if not record.moved]
    assert 0 < len(skipped) < 8
    assert [record.loss_scale for record in skipped] == [2.0 ** (20 - i) for i in range(len(skipped))]
    assert all(record.lr == 0 for record in skipped)  # the warm-up has not begun
    assert records[-1].loss < records[0].loss - 0.1
    assert stepper.optimizer.step.asnumpy() == len(records) - len(skipped)


@pytest.mark.parametrize("given", [(0.5, 2), (math.inf, 2), (math.nan, 2), (2.0, 0)])
def test_numbers_that_make_no_loss_scale_stop(given):
    with pytest.raises(UsageError, match="loss scale"):
        LossScale(*given)
