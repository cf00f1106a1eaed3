"""The value of a counterpart, and its gradients: MindSpore's, each brought to NumPy, where an error comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, experimental, mint, nn, ops
from mindspore.common import initializer as init

from mindport.coverage.inputs import Array, cotangent, inputs, put, square_sum, weight
from mindport.coverage.scripts.torch_side import flat


def values(expression: str) -> list[Array]:
    """The outputs, flattened."""
    return [_array(output) for output in flat(eval(expression, {**SPACE, **_tensors()}))]


def gradients(expression: str, names: Sequence[str], floats: Sequence[int]) -> dict[str, Array]:
    """The gradient of the weighted sum of the outputs `floats`, for each of the inputs `names`."""
    tensors = _tensors()

    def loss(*leaves: Tensor) -> Tensor:
        space = {**SPACE, **tensors, **dict(zip(names, leaves, strict=True))}
        outputs = list(flat(eval(expression, space)))
        return sum((outputs[n] * Tensor(cotangent(outputs[n].shape))).sum() for n in floats)

    found = ms.grad(loss, grad_position=tuple(range(len(names))))(*[tensors[name] for name in names])
    return {name: gradient.asnumpy() for name, gradient in zip(names, flat(found), strict=True)}


def same_named(name: str) -> list[str]:
    """Where MindSpore has something of a torch name's last part."""
    last = name.split(".")[-1]
    spaces = {"ops": ops, "mint": mint, "mint.nn.functional": mint.nn.functional, "nn": nn, "Tensor": Tensor}
    return [f"{space}.{last}" for space, place in spaces.items() if hasattr(place, last)]


def _tensors() -> dict[str, Tensor]:
    """The inputs; integers are int32, which every operator takes."""
    return {name: Tensor(a.astype(np.int32) if a.dtype == np.int64 else a) for name, a in inputs().items()}


def _array(output: Any) -> Array:
    return output.asnumpy() if isinstance(output, Tensor) else np.asarray(output)


# What the expressions of the table may call; the same words as in `torch_side`.


def load(cell: nn.Cell, *names: str) -> nn.Cell:
    arrays = inputs()
    for parameter, name in zip(cell.get_parameters(), names, strict=True):
        parameter.set_data(Tensor(arrays[name].reshape(parameter.shape)))
    return cell


def same_weights(cell: nn.Cell) -> nn.Cell:
    for name, parameter in cell.parameters_and_names():
        parameter.set_data(Tensor(weight(name, parameter.shape)))
    return cell


def filled(value: Any, *shape: int) -> Tensor:
    return init.initializer(value, shape or (64, 64)).init_data()


def stepped(optimizer: Callable[..., Any], **options: float) -> Tensor:
    arrays = inputs()
    parameter = Parameter(Tensor(arrays["x"]), name="parameter")
    stepper = optimizer([parameter], **options)
    for step in (1, 2, 3):
        stepper((Tensor(step * arrays["y"]),))
    return parameter


def scheduled(optimizer: Callable[..., Any], make: Callable[..., Any], argument: Any) -> list[float]:
    stepper = optimizer([Parameter(Tensor([0.0, 0.0]), name="parameter")], lr=0.1)
    schedule = make(stepper, argument)
    rates = []
    for _ in range(4):
        rates += [float(rate) for rate in schedule.get_last_lr()]
        schedule.step()
    return rates


def seeded(seed: Callable[[int], Any], draw: Callable[[], Tensor]) -> Tensor:
    seed(5)
    first = draw().asnumpy()
    seed(5)
    return (Tensor(first) == draw()).all()


class Wrapped(nn.Cell):
    """A function as a cell, for what takes cells only."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def construct(self, *tensors: Tensor) -> Tensor:
        return self.function(*tensors)


SPACE = {
    "ms": ms, "np": np, "ops": ops, "mint": mint, "nn": nn, "experimental": experimental, "init": init,
    "Tensor": Tensor, "load": load, "same_weights": same_weights, "put": put, "square_sum": square_sum,
    "filled": filled, "stepped": stepped, "scheduled": scheduled, "seeded": seeded, "Wrapped": Wrapped,
}  # fmt: skip
