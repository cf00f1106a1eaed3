"""The true value of an expression, and its gradients: PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn import init

from mindport.coverage.inputs import Array, cotangent, inputs, put, square_sum, weight

warnings.simplefilter("ignore")


class Truth:
    """The values of an expression, and the gradient of each float array it depends on.

    Attributes:
        values: the outputs, flattened.
        floats: which outputs are real numbers; their sum, weighted, is differentiated.
        gradients: input → gradient; empty where the expression cannot be differentiated.
    """

    def __init__(self, expression: str) -> None:
        tensors = {name: torch.from_numpy(array) for name, array in inputs().items()}
        leaves = {name: t.requires_grad_() for name, t in tensors.items() if t.is_floating_point() and name != "big"}
        outputs = list(flat(eval(expression, {**SPACE, **tensors})))
        self.values: list[Array] = [_array(output) for output in outputs]
        self.floats = [index for index, value in enumerate(self.values) if value.dtype.kind == "f"]
        self.gradients = _gradients(outputs, leaves)


@cache
def truth(expression: str) -> Truth:
    """Computed once for the expressions that are held to it."""
    torch.manual_seed(0)
    return Truth(expression)


def flat(value: Any) -> Iterator[Any]:
    """The parts of a result, however they are nested."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from flat(part)
    else:
        yield value


def _array(output: Any) -> Array:
    return output.detach().numpy() if isinstance(output, Tensor) else np.asarray(output)


def _gradients(outputs: list[Any], leaves: dict[str, Tensor]) -> dict[str, Array]:
    tensors = [output for output in outputs if isinstance(output, Tensor) and output.requires_grad]
    if not tensors:
        return {}
    loss = sum((t * torch.from_numpy(cotangent(tuple(t.shape)))).sum() for t in tensors)
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {name: g.numpy() for name, g in zip(leaves, found, strict=True) if g is not None}


# What the expressions of the table may call.


def load(module: nn.Module, *names: str) -> nn.Module:
    """Give a module's parameters, in their order, the arrays of these names."""
    arrays = inputs()
    for parameter, name in zip(module.parameters(), names, strict=True):
        parameter.data = torch.from_numpy(arrays[name]).reshape(parameter.shape)
    return module


def same_weights(module: nn.Module) -> nn.Module:
    """Give each parameter the value of its name."""
    for name, parameter in module.named_parameters():
        parameter.data = torch.from_numpy(weight(name, tuple(parameter.shape)))
    return module


def clipped(limit: float, *tensors: Tensor) -> list[Tensor | None]:
    parameters = [nn.Parameter(torch.zeros_like(tensor)) for tensor in tensors]
    for parameter, tensor in zip(parameters, tensors, strict=True):
        parameter.grad = tensor.detach().clone()
    torch.nn.utils.clip_grad_norm_(parameters, limit)
    return [parameter.grad for parameter in parameters]


def stepped(optimizer: Callable[..., Any], **options: float) -> Tensor:
    """A parameter after three steps with a gradient that grows."""
    arrays = inputs()
    parameter = nn.Parameter(torch.from_numpy(arrays["x"]))
    stepper = optimizer([parameter], **options)
    for step in (1, 2, 3):
        parameter.grad = step * torch.from_numpy(arrays["y"])
        stepper.step()
    return parameter.detach()


def scheduled(optimizer: Callable[..., Any], make: Callable[..., Any], argument: Any) -> list[float]:
    """The learning rates of four steps."""
    stepper = optimizer([nn.Parameter(torch.zeros(2))], lr=0.1)
    schedule = make(stepper, argument)
    rates = []
    for _ in range(4):
        rates += schedule.get_last_lr()
        schedule.step()
    return rates


def seeded(seed: Callable[[int], Any], draw: Callable[[], Tensor]) -> Tensor:
    """Whether the same seed gives the same numbers."""
    seed(5)
    first = draw()
    seed(5)
    return (first == draw()).all()


SPACE = {
    "torch": torch, "nn": nn, "F": F, "init": init, "load": load, "same_weights": same_weights, "put": put,
    "square_sum": square_sum, "clipped": clipped, "stepped": stepped, "scheduled": scheduled, "seeded": seeded,
}  # fmt: skip
