"""What is to be planned: a model, a batch, a device, and how many of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from mindport.config import ModelConfig
from mindport.errors import ConfigError, UsageError
from mindport.parallel.plan.constants import Hardware
from mindport.parallel.plan.sizes import Sizes, sizes

Dtype = Literal["bfloat16", "float16", "float32"]
LARGEST = 65_536


@dataclass(frozen=True)
class Job:
    """A training to be laid out.

    Attributes:
        model: the configuration.
        hardware: the device's constants.
        devices: how many cards.
        seq: tokens of a sample.
        global_batch: samples of an optimizer step.
        dtype: what is computed in.
        host_size: cards of a server, each linked to each.
        micro_batch: samples of a micro-batch; None tries every divisor.
        fused: whether attention keeps no scores (flash attention).
        size: the model's parameters, counted.
    """

    model: ModelConfig
    hardware: Hardware
    devices: int = 8
    seq: int = 4096
    global_batch: int = 256
    dtype: Dtype = "bfloat16"
    host_size: int = 8
    micro_batch: int | None = None
    fused: bool = True
    size: Sizes = field(init=False)

    def __post_init__(self) -> None:
        for name in ("devices", "seq", "global_batch", "host_size"):
            if not 1 <= getattr(self, name) <= (LARGEST if name == "devices" else 2**31):
                raise UsageError("no such job", where=name, got=getattr(self, name), expected="a number from 1 on")
        if self.micro_batch is not None and self.micro_batch < 1:
            raise UsageError("no such job", where="micro_batch", got=self.micro_batch, expected="a number from 1 on")
        if self.devices > self.host_size and self.devices % self.host_size:
            raise UsageError("the cards fill no whole number of servers", got=f"{self.devices} cards",
                             expected=f"a multiple of {self.host_size}", do="see --host-size")  # fmt: skip
        if self.dtype == "bfloat16" and not self.hardware.bf16:
            raise UsageError("this device does not compute in bfloat16", got=self.hardware.device,
                             do="--dtype float16")  # fmt: skip
        if self.seq > self.model.max_position_embeddings:
            raise ConfigError("the sequence is longer than the model's context", got=self.seq,
                              expected=f"at most {self.model.max_position_embeddings}",
                              do=f"--seq {self.model.max_position_embeddings}")  # fmt: skip
        object.__setattr__(self, "size", sizes(self.model))

    @property
    def element(self) -> int:
        """Bytes of a value that is computed."""
        return 4 if self.dtype == "float32" else 2

    @property
    def master(self) -> float:
        """Bytes of the float32 copy of a weight."""
        return 0.0 if self.dtype == "float32" else self.hardware["master"]

    @property
    def limit(self) -> float:
        """Bytes that a card offers."""
        return self.hardware["memory"] * 2**30

    @property
    def peak(self) -> float:
        """FLOP/s of matrix products."""
        return self.hardware["peak"] * (self.hardware["float32"] if self.dtype == "float32" else 1)


def divisors(number: int) -> list[int]:
    """All of them, in order."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
