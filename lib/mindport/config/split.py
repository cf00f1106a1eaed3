"""Which part of each parameter a rank holds under tensor parallelism: equal shares along the schema's axis.

Heads go in order, so the query heads of a rank are those that read its key/value heads. A vocabulary whose rows do not
divide is held, and computed with, whole by every rank: GPT-2's 50257 is no multiple of anything.
"""

from __future__ import annotations

import re

from mindport.config.constraints import tensor_parallel
from mindport.config.model_config import ModelConfig
from mindport.config.schema import LAYER, PARAMS, Param, parameters
from mindport.errors import ConfigError, MappingError
from mindport.ranks import Ranks

_PARAMS = {param.name: param for param in PARAMS}


def check_split(config: ModelConfig, ranks: Ranks) -> None:
    """Stop where heads or the MLP's width do not divide.

    Raises:
        ConfigError: they do not.
    """
    rule = tensor_parallel(config, ranks.tp, whole_vocabulary=True)
    if not rule.ok:
        raise ConfigError("the model cannot be split over so many ranks", where=rule.name, got=rule.got,
                          expected=rule.expected, do=rule.do)  # fmt: skip


def part(name: str, config: ModelConfig, ranks: Ranks) -> tuple[slice, ...]:
    """The part of a whole parameter that a rank holds: a slice with both ends for each axis.

    Args:
        name: of the parameter in the hub.
        config: a model that `check_split` lets pass.
        ranks: which rank.

    Raises:
        MappingError: the hub has no such parameter.
    """
    param = _param(name)
    sizes = [config.dims[letter] for letter in param.shape.split()]
    found, split = [slice(0, size) for size in sizes], _axis(param, config, ranks.tp)
    if split is not None:
        share = sizes[split] // ranks.tp
        found[split] = slice(ranks.tp_rank * share, (ranks.tp_rank + 1) * share)
    return tuple(found)


def axis(name: str, config: ModelConfig, tp: int) -> int | None:
    """The axis along which `tp` ranks share a parameter; None when each holds it whole.

    Raises:
        MappingError: the hub has no such parameter.
    """
    return _axis(_param(name), config, tp)


def axes(config: ModelConfig, tp: int) -> dict[str, int]:
    """Every parameter of this configuration that `tp` ranks share, and the axis."""
    found = ((name, _axis(param, config, tp)) for name, param in parameters(config))
    return {name: split for name, split in found if split is not None}


def _param(name: str) -> Param:
    pattern = re.sub(r"\.\d+\.", f".{LAYER}.", name, count=1)
    if pattern not in _PARAMS:
        raise MappingError("the schema has no such parameter", where=name)
    return _PARAMS[pattern]


def _axis(param: Param, config: ModelConfig, tp: int) -> int | None:
    if tp == 1 or param.tp is None:
        return None
    letter = param.shape.split()[param.tp]
    return None if letter == "v" and config.vocab_rows % tp else param.tp
