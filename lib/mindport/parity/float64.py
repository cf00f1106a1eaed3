"""The same code in float64: what float32 would be if it were exact."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Float64(TorchFunctionMode):
    """Casts to float32 become casts to float64: transformers' norms and softmax upcast "to float32" by name."""

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        args = tuple(torch.float64 if arg is torch.float32 else arg for arg in args)
        kwargs = {key: torch.float64 if item is torch.float32 else item for key, item in (kwargs or {}).items()}
        return func(*args, **kwargs)
