"""What a check may use: both modes, errors, differences, names. Imported in the process of a check only."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn

from mindport.claims.worker import one_line, settle


class Called(nn.Cell):
    """A function as a network, so that Graph mode compiles it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def construct(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def pynative(function: Callable[..., Any], *inputs: Any) -> Any:
    """The value of a function or Cell in PyNative mode, as NumPy; arrays among the inputs become tensors."""
    return _run(ms.PYNATIVE_MODE, function, inputs)


def graph(function: Callable[..., Any], *inputs: Any) -> Any:
    """The same in Graph mode."""
    return _run(ms.GRAPH_MODE, function, inputs)


def both(function: Callable[..., Any], *inputs: Any) -> tuple[Any, Any]:
    """The same in PyNative and in Graph mode."""
    return pynative(function, *inputs), graph(function, *inputs)


def raises(function: Callable[..., Any], *inputs: Any) -> str:
    """The kind of the error and its first line, or "" when there is none.

    The value is brought to NumPy first: in PyNative mode an error comes when a value is needed, and comes again.
    """
    try:
        numpy(function(*inputs))
    except Exception as error:
        settle()
        return one_line(error)
    return ""


def gradients(function: Callable[..., Any], *inputs: Any) -> Any:
    """The gradients of a scalar function with respect to all its inputs, as NumPy."""
    return numpy(ms.grad(function, grad_position=tuple(range(len(inputs))))(*map(_tensor, inputs)))


def gap(a: Any, b: Any) -> float:
    """The largest absolute difference of two values, or of two sequences of them; NaN differs from everything."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return max(gap(x, y) for x, y in zip(a, b, strict=True))
    difference = np.abs(np.asarray(numpy(a), np.float64) - np.asarray(numpy(b), np.float64))
    return float("inf") if np.isnan(difference).any() else float(difference.max())


def numpy(value: Any) -> Any:
    """A MindSpore or torch tensor as NumPy, bfloat16 as float32; sequences item by item."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(numpy, value)) if type(value) in (tuple, list) else tuple(map(numpy, value))
    if isinstance(value, ms.Tensor):
        return (value.astype(ms.float32) if value.dtype == ms.bfloat16 else value).asnumpy()
    if hasattr(value, "detach"):
        value = value.detach()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    return value


def has(path: str) -> bool:
    """Whether `mindspore` has this, by its dotted name ("ops.bmm")."""
    try:
        pkgutil.resolve_name(f"mindspore.{path}")
    except (AttributeError, ImportError):
        return False
    return True


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters of a function, or of a class."""
    return list(inspect.signature(function).parameters)


def accepts(function: Callable[..., Any], name: str) -> bool:
    """Whether a function, or a class, has a parameter of this name."""
    return name in parameters(function)


def default_of(function: Callable[..., Any], name: str) -> Any:
    """The default of a parameter."""
    return inspect.signature(function).parameters[name].default


def rows_of(pipeline: Any) -> list[Any]:
    """The rows of a data set, each a list of NumPy columns."""
    return [list(row) for row in pipeline.create_tuple_iterator(output_numpy=True, num_epochs=1)]


def fresh(*words: str) -> str:
    """What a Python program of its own printed, stdout and stderr; it must end well.

    Raises:
        RuntimeError: it failed; the message is the last error that it named.
    """
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, errors="replace")
    said = done.stdout + done.stderr
    if done.returncode:
        errors = [line for line in said.splitlines() if "Error: " in line]
        raise RuntimeError((errors or [f"exit code {done.returncode}"])[-1])
    return said


def _run(mode: int, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    ms.set_context(mode=mode)
    try:
        return numpy((function if isinstance(function, nn.Cell) else Called(function))(*map(_tensor, inputs)))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def _tensor(value: Any) -> Any:
    return ms.Tensor(value) if isinstance(value, np.ndarray) else value
