"""Learning rates against the schedules of transformers, step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from mindspore import Parameter, Tensor, nn

from mindport.errors import UsageError
from mindport.training import Constant, Cosine, Linear, Schedule
from tests.model.reference import MODES, execution

LR, TOTAL, WARMUP, STEPS = 3e-4, 180, 17, 200  # on beyond the end
CASES = {
    "constant": (lambda: Constant(LR), lambda o: transformers.get_constant_schedule(o)),
    "constant, warm": (
        lambda: Constant(LR, warmup=WARMUP),
        lambda o: transformers.get_constant_schedule_with_warmup(o, WARMUP),
    ),
    "linear": (
        lambda: Linear(LR, total=TOTAL),
        lambda o: transformers.get_linear_schedule_with_warmup(o, 0, TOTAL),
    ),
    "linear, warm": (
        lambda: Linear(LR, total=TOTAL, warmup=WARMUP),
        lambda o: transformers.get_linear_schedule_with_warmup(o, WARMUP, TOTAL),
    ),
    "cosine": (
        lambda: Cosine(LR, total=TOTAL),
        lambda o: transformers.get_cosine_schedule_with_warmup(o, 0, TOTAL),
    ),
    "cosine, warm": (
        lambda: Cosine(LR, total=TOTAL, warmup=WARMUP),
        lambda o: transformers.get_cosine_schedule_with_warmup(o, WARMUP, TOTAL),
    ),
}


def expected(make) -> np.ndarray:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    schedule, rates = make(optimizer), []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return np.array(rates)


class Counting(nn.Cell):
    """The rate of the next step; it keeps count itself, as an optimizer does."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(auto_prefix=False)
        self.schedule, self.step = schedule, Parameter(Tensor(np.int32(0)), name="step", requires_grad=False)

    def construct(self):
        rate = self.schedule(self.step)
        self.step = self.step + 1
        return rate


def rates(schedule: Schedule) -> np.ndarray:
    counting = Counting(schedule)
    return np.array([counting().asnumpy().item() for _ in range(STEPS)])


def error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Relative to the rate itself, however small it is, down to a billionth of the full one."""
    return (np.abs(got - wanted) / np.maximum(wanted, 1e-9 * LR)).max()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_every_rate_equals_transformers(name, mode):
    ours, theirs = CASES[name]
    with execution(MODES[mode]):
        assert error(rates(ours()), expected(theirs)) <= 1e-6


@pytest.mark.parametrize("name", ["constant, warm", "linear", "cosine, warm"])
def test_off_by_one_is_seen(name):
    ours, theirs = CASES[name]
    assert error(rates(ours())[1:], expected(theirs)[:-1]) > 1e-5


@pytest.mark.parametrize("other", ["cosine", "linear, warm"])
def test_another_schedule_is_seen(other):
    assert error(rates(CASES["cosine, warm"][0]()), expected(CASES[other][1])) > 1e-2


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(-1.0),
        lambda: Constant(float("nan")),
        lambda: Constant(1.0, warmup=-1),
        lambda: Linear(1.0, total=10, warmup=10),
        lambda: Cosine(1.0, total=0),
    ],
)
def test_numbers_that_make_no_schedule_stop(make):
    with pytest.raises(UsageError):
        make()
