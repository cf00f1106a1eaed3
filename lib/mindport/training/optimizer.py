"""AdamW over all parameters of a model, equal to torch.optim.AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import mindspore as ms
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops

from mindport.errors import UsageError, some
from mindport.model import kernels


def is_matrix(weight: Parameter) -> bool:
    """Weight decay as usual: on matrices and tables, not on norms and biases."""
    return weight.ndim > 1


def decaying(no_decay: Sequence[str] = ()) -> Callable[[Parameter], bool]:
    """Matrices and tables, but for those whose names match one of the patterns (`embed.weight`, `blocks.0.*`).

    Without patterns these are the groups of transformers' trainer, which spares norms and biases and nothing else.
    """
    return lambda weight: is_matrix(weight) and not any(fnmatchcase(weight.name, pattern) for pattern in no_decay)


class AdamW(nn.Cell):
    """Called as `(gradients, lr, scale)`; changes the weights and its own state in place.

    The state are the parameters `adam.step` (int32, steps taken), and `adam.m.<weight>` and `adam.v.<weight>`, the
    means of the gradient and of its square. To restore it use `ops.assign`: `set_data` leaves stale buffers behind.
    A scale that is not finite moves nothing: neither weights nor state, the count of the steps included.

    Args:
        weights: what it changes.
        betas: of the two means.
        eps: added to the root of the second.
        weight_decay: share of a weight, times lr, that a step takes away.
        decays: which weights that happens to.

    Raises:
        UsageError: there is nothing to change, it is not float32, or the numbers make no optimizer.
    """

    def __init__(
        self,
        weights: Sequence[Parameter],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        decays: Callable[[Parameter], bool] = is_matrix,
    ) -> None:
        super().__init__(auto_prefix=False)  # parameters keep their names
        _check(weights, betas, eps, weight_decay)
        self.weights = ParameterTuple(weights)
        self.m, self.v = (self.weights.clone(prefix=f"adam.{mean}", init="zeros") for mean in "mv")
        self.step = Parameter(Tensor(0, ms.int32), name="adam.step")
        for parameter in self.state:
            parameter.requires_grad = False
        decay = [weight_decay * decays(weight) for weight in weights]
        self.update, self.assign = kernels.adamw(decay=decay, betas=betas, eps=eps), ops.Assign()
        self.is_finite, self.int32 = ops.isfinite, ms.int32

    @property
    def state(self) -> tuple[Parameter, ...]:
        """What a checkpoint needs besides the weights."""
        return (self.step, *self.m, *self.v)

    def construct(self, gradients: tuple[Tensor, ...], lr: Tensor, scale: Tensor) -> Tensor:
        """One step.

        Args:
            gradients: one for each weight.
            lr: the rate, float32 ().
            scale: what multiplies the gradients, float32 ().
        """
        step = self.step + self.is_finite(scale).astype(self.int32)
        self.assign(self.step, step)
        return self.update(self.weights, self.m, self.v, gradients, lr, scale, step)


def _check(weights: Sequence[Parameter], betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    if not weights:
        raise UsageError("there are no weights to optimize")
    if other := [weight.name for weight in weights if weight.dtype != ms.float32]:
        raise UsageError("AdamW keeps float32 weights", where=some(other), do="load the model with dtype='float32'")
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise UsageError("these are no betas", got=betas, expected="two numbers from 0 to below 1")
    if not all(0 <= number < math.inf for number in (eps, weight_decay)):
        raise UsageError("eps and weight_decay are not so", got=(eps, weight_decay), expected="finite, 0 or more")
