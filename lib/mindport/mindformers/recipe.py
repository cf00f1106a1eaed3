"""What a training run needs beyond model and layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mindport.config.readers import positive_float, positive_int, whole_number
from mindport.errors import UsageError
from mindport.mindformers.data import UNKNOWN


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError("a number from 0 up to, not including, 1")
    return float(value)


_SENSE: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(("batch_size", "steps"), positive_int),
    **dict.fromkeys(("learning_rate", "eps"), positive_float),
    **dict.fromkeys(("lr_end", "warmup_ratio", "weight_decay"), _share),
    "betas": lambda pair: [_share(beta) for beta in pair],
    "seed": whole_number,
}


@dataclass(frozen=True)
class Recipe:
    """Steps, batch, optimizer and schedule; a starting point for fine-tuning, to be edited in the YAML.

    Attributes:
        seq_length: tokens of a sample; None for the model's context.
        batch_size: samples of a micro-batch, on each replica.
        steps: length of the run, in optimizer steps.
        learning_rate, lr_end: peak and last value of the cosine.
        warmup_ratio: share of the steps that warm up.
        betas, eps, weight_decay: AdamW's.
        seed: of everything random.
        data: where the training data lies.

    Raises:
        UsageError: a number makes no sense.
    """

    seq_length: int | None = None
    batch_size: int = 1
    steps: int = 1000
    learning_rate: float = 1e-5
    lr_end: float = 1e-6
    warmup_ratio: float = 0.03
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.01
    seed: int = 42
    data: str = UNKNOWN

    def __post_init__(self) -> None:
        for name, read in _SENSE.items():
            try:
                read(getattr(self, name))
            except ValueError as expected:
                raise UsageError("a recipe that trains nothing", where=name, got=repr(getattr(self, name)),
                                 expected=expected) from None  # fmt: skip

    def context(self, longest: int) -> int:
        """The tokens of a sample of a model whose context is `longest`.

        Raises:
            UsageError: `seq_length` is beyond it.
        """
        length = longest if self.seq_length is None else self.seq_length
        if not 1 <= length <= longest:
            raise UsageError("no such sequence length", got=length, expected=f"1 to {longest}, the model's context")
        return length

    def optimizer(self) -> dict[str, Any]:
        """AdamW, as both schemas write it."""
        return {"type": "AdamW", "betas": list(self.betas), "eps": self.eps, "weight_decay": self.weight_decay}

    def schedule(self) -> dict[str, Any]:
        """A cosine after a warm-up, as both schemas write it; -1 takes the number of steps from the run."""
        return {"type": "CosineWithWarmUpLR", "learning_rate": self.learning_rate, "lr_end": self.lr_end,
                "warmup_ratio": self.warmup_ratio, "total_steps": -1}  # fmt: skip
