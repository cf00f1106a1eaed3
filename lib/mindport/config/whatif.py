"""What a change of one setting does to the size of a model, and whether it is legal."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from mindport.config import schema
from mindport.config.constraints import Constraint, constraints, pipeline, tensor_parallel
from mindport.config.model_config import ModelConfig
from mindport.config.readers import positive_int
from mindport.config.vocabulary import Vocabulary
from mindport.errors import UsageError, some
from mindport.results import Result
from mindport.tables import Table

NO_SIZES = ("bos_token_id", "eos_token_id", "pad_token_id", "norm_offset")  # numbers that count nothing


@dataclass(frozen=True)
class WhatIf(Result):
    """A changed configuration: its size, and the constraints on it and on its layout."""

    changes: dict[str, Any]
    parameters: int
    cache_bytes: int
    constraints: tuple[Constraint, ...]

    @property
    def ok(self) -> bool:
        return all(constraint.ok for constraint in self.constraints)

    def headline(self) -> str:
        broken = "; ".join(f"{c.name}: {c.got}" for c in self.constraints if not c.ok)
        size = f"{self.parameters / 1e6:,.2f} M parameters, {self.cache_bytes:,} B of KV cache a token"
        return size if self.ok else f"not legal: {broken}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(c.name, c.state, c.got, c.expected) for c in self.constraints]
        return (Table("Constraints", ("constraint", "state", "got", "expected"), rows),)


def what_if(config: ModelConfig, *, tensor: int = 1, stages: int = 1, **changes: Any) -> WhatIf:
    """`config` with some fields changed and a layout asked for.

    Args:
        config: where to start.
        tensor: ranks that share each layer.
        stages: pipeline stages.
        changes: fields of `ModelConfig` and their new values.

    Raises:
        UsageError: there is no such field, or a size that is none.
    """
    _check_sizes(config, {"tensor": tensor, "stages": stages, **changes})
    layers = changes.get("num_hidden_layers", config.num_hidden_layers)
    changed = dataclasses.replace(config.with_layers(layers), **changes)
    explicit = {"head_dim": changed.head_dim}
    rules = (*constraints(changed, Vocabulary(), explicit), tensor_parallel(changed, tensor), pipeline(changed, stages))
    cache = 2 * 2 * changed.num_hidden_layers * changed.dims["k"]  # k and v, two bytes each
    return WhatIf({**changes, "tensor": tensor, "stages": stages}, schema.count(changed), cache, rules)


def _check_sizes(config: ModelConfig, asked: dict[str, Any]) -> None:
    """Whole numbers from 1 on where the model has one: of zero heads every rule would be true."""
    fields = dataclasses.asdict(config) | {"tensor": 1, "stages": 1}
    for name, value in asked.items():
        if name not in fields:
            raise UsageError("the model has no such field", got=name, expected=some(fields, 30))
        if type(fields[name]) is int and name not in NO_SIZES:
            try:
                positive_int(value)
            except ValueError as expected:
                raise UsageError("a size that is none", where=name, got=repr(value), expected=expected) from None
