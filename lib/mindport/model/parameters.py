"""Where the values of the parameters come from: the schema says which there are, a source says what is in them.

Cells ask for their parameters by the last part of the name, so that no shape and no condition is written twice:

    params = Parameters(config, source)
    (params / "blocks" / 0 / "attn" / "q")("weight")     # blocks.0.attn.q.weight, shape (q, d) by the schema

A parameter holds its final value from birth. Setting it afterwards is slower, doubles the memory, and leaves
stale buffers behind when a training step has run (`Parameter.set_data`, MindSpore 2.10).
"""

from __future__ import annotations

from collections.abc import Callable

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor

from mindport.config.model_config import ModelConfig
from mindport.config.schema import shapes
from mindport.config.split import axis, check_split, part
from mindport.errors import MappingError, UsageError, some
from mindport.model.dropout import Counter, drops
from mindport.model.precision import Precision
from mindport.ranks import ALONE, Ranks

Source = Callable[[str, tuple[int, ...]], np.ndarray]  # (hub name, shape) -> values

DTYPES = {"float32": ms.float32, "float16": ms.float16, "bfloat16": ms.bfloat16}


class Parameters:
    """Makes the parameters of one configuration, each exactly once, and tells the cells what else they have in common.

    Attributes:
        dtype: of the parameters.
        products: of what goes into products of matrices.
        stream: of what goes from cell to cell.
        mixed: whether the stream is narrower than the parameters.
        counter: where random numbers come from; None when nothing is dropped.
        ranks: which part of them this process holds; `source` always gives whole ones.
    """

    def __init__(
        self, config: ModelConfig, source: Source, dtype: str = "float32", precision: Precision | None = None,
        seed: int = 0, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        if dtype not in DTYPES:
            raise UsageError("the model has no such dtype", got=dtype, expected=", ".join(DTYPES))
        check_split(config, ranks)
        self.config, self.source, self.dtype, self.prefix, self.ranks = config, source, dtype, "", ranks
        self.products, self.stream = _computed(dtype, precision or Precision())
        self.mixed = self.stream != dtype
        self.counter = Counter(seed, ranks) if drops(config) else None
        self.left = shapes(config)  # shared by every scope

    def __truediv__(self, part: str | int) -> Parameters:
        """The same parameters seen from inside a cell."""
        inner = object.__new__(Parameters)
        inner.__dict__.update(self.__dict__, prefix=f"{self.prefix}{part}.")
        return inner

    def __contains__(self, leaf: str) -> bool:
        return self.prefix + leaf in self.left

    def axis(self, leaf: str) -> int | None:
        """Along which axis ranks share the parameter `leaf` of this scope; None when each holds it whole."""
        return axis(self.prefix + leaf, self.config, self.ranks.tp)

    def __call__(self, leaf: str) -> Parameter:
        """The parameter `leaf` of this scope, or this process's part of it, filled.

        Raises:
            MappingError: the schema has no such parameter, or it was taken already, or the shapes differ.
        """
        name = self.prefix + leaf
        if name not in self.left:
            raise MappingError("the schema has no such parameter left", where=name)
        shape = self.left.pop(name)
        value = self.source(name, shape)
        if tuple(value.shape) != shape:
            raise MappingError("the shape of a weight disagrees with config.json", where=name, got=tuple(value.shape),
                               expected=shape, do="convert the model again from its own directory")  # fmt: skip
        return Parameter(_tensor(value[part(name, self.config, self.ranks)], self.dtype), name=leaf)

    def finish(self) -> None:
        """Check that every parameter of the schema was taken.

        Raises:
            MappingError: the model has no cell for some.
        """
        if self.left:
            raise MappingError("the model has no cell for these parameters", got=some(self.left))


def _computed(dtype: str, precision: Precision) -> tuple[str, str]:
    """The dtypes of products and of the stream."""
    if precision.level == "O0":
        return dtype, dtype
    if dtype != "float32":
        raise UsageError("mixed precision keeps float32 weights", got=f"{precision.level} on {dtype}",
                         expected="dtype='float32' and a level, or another dtype and O0")  # fmt: skip
    return precision.products, precision.stream


def fresh(config: ModelConfig, seed: int = 0) -> Source:
    """Values to train from nothing: N(0, initializer_range²) matrices, norms that multiply by 1, biases 0."""
    generator = np.random.default_rng(seed)

    def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if len(shape) == 1:
            return np.full(shape, (1.0 - config.norm_offset) * name.endswith("weight"), np.float32)
        return generator.standard_normal(shape, np.float32) * np.float32(config.initializer_range)

    return values


def _tensor(value: np.ndarray, dtype: str) -> Tensor:
    """`value` as a tensor; through float32, which holds float16 and bfloat16 exactly."""
    tensor = Tensor(np.ascontiguousarray(value, np.float32))  # copies: the model never shares memory with a file
    return tensor if dtype == "float32" else tensor.astype(DTYPES[dtype])
