"""A function of the C++ library as a MindSpore operator, with a gradient.

Numbers that a function needs (a scale, an epsilon) are passed to it as one more input, a small constant tensor; an
operator's gradient is a tuple with one entry for each input, so such a tensor stands for its own, which nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import ops

from mindport.model.kernels.library import library, unavailable
from mindport.model.kernels.selector import Kernel


class Native(Kernel):
    """A path in C++: float32 only, so under mixed precision it is a float32 island in the model."""

    @staticmethod
    def refuses(*, dtype: str = "float32", **_: Any) -> str | None:
        """What `refusal` says of the dtype; a kernel that has no such setting is one of float32 on every path."""
        return refusal(dtype)

    def add_flags(self, **flags: Any) -> Native:
        """Mixed precision sets its flags on every cell; here the one for float32 takes their place."""
        if flags.get("fp16") or flags.get("bf16"):
            flags = {**flags, "fp16": False, "bf16": False, "fp32": True}
        return super().add_flags(**flags)


def native(function: str, shape: Callable[..., Any], gradient: Callable[..., tuple[Any, ...]] | None = None, *,
           outputs: int = 1) -> ops.Custom:  # fmt: skip
    """An operator that runs `function`, which is defined by OPERATOR in cpp/; its outputs are float32.

    Args:
        function: its name.
        shape: shapes of the inputs → shape of the output, or a tuple of as many as `outputs`.
        gradient: (*inputs, output(s), gradient(s) of the output(s)) → one gradient for each input; a `def` on lines
            of its own, since Graph mode reads its source.
        outputs: how many there are.
    """

    def dtype(*inputs: Any) -> Any:
        return ms.float32 if outputs == 1 else (ms.float32,) * outputs

    return ops.Custom(f"{library()}:{function}", shape, dtype, "aot", bprop=gradient)


def plain(function: str) -> ops.Custom:
    """`function` of one array, (x) → y of its shape, whose gradient is the function {function}_grad, (x, dy) → dx."""
    grad = native(f"{function}_grad", lambda x, dy: x)

    def gradient(x: Any, y: Any, dy: Any) -> Any:
        return (grad(x, dy),)

    return native(function, lambda x: x, gradient)


def gated(function: str) -> ops.Custom:
    """`function` of two, (gate, up) → y, whose gradient is {function}_grad, (gate, up, dy) → dgate, dup; one shape."""
    grad = native(f"{function}_grad", lambda gate, up, dy: (gate, up), outputs=2)

    def gradient(gate: Any, up: Any, y: Any, dy: Any) -> Any:
        return grad(gate, up, dy)

    return native(function, lambda gate, up: gate, gradient)


def refusal(dtype: str = "float32") -> str | None:
    """What the C++ kernels need that is not so here: a precision, a compiler; None when nothing is missing."""
    if dtype != "float32":
        return f"float32, not {dtype}"
    missing = unavailable()
    return None if missing is None else f"a C++ compiler: {missing}"
