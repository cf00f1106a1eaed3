"""Values put back into parameters, all or none."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from mindspore import Parameter, Tensor, ops

from mindport.errors import MappingError, some


def put_back(parameters: Mapping[str, Parameter], values: Mapping[str, np.ndarray]) -> None:
    """Give every parameter its value, in the memory that it has.

    By `ops.assign`: after a first step, `set_data` and `load_param_into_net` leave the graph with the old memory, and
    the training goes on wrong without a word.

    Raises:
        MappingError: names, shapes or dtypes are not the same; nothing was changed.
    """
    _check_names(parameters, values)
    for name, parameter in parameters.items():
        _check(name, parameter, values[name])
    for name, parameter in parameters.items():
        ops.assign(parameter, Tensor(values[name]))


def _check_names(parameters: Mapping[str, Parameter], values: Mapping[str, np.ndarray]) -> None:
    missing, extra = (sorted(a.keys() - b.keys()) for a, b in ((parameters, values), (values, parameters)))
    if missing:
        raise MappingError("a state to resume from lacks values", where=some(missing), got="none",
                           expected="a value for each", do="resume with the configuration that wrote it")  # fmt: skip
    if extra:
        raise MappingError("a state to resume from holds values that nothing here takes", got=some(extra),
                           do="resume with the configuration that wrote it")  # fmt: skip


def _check(name: str, parameter: Parameter, value: np.ndarray) -> None:
    dtype = np.dtype(str(parameter.dtype).lower())
    if (value.shape, value.dtype) != (parameter.shape, dtype):
        raise MappingError("a value to resume from is not of the parameter's kind", where=name,
                           got=f"{value.dtype} {value.shape}", expected=f"{dtype} {parameter.shape}",
                           do="resume from a checkpoint of this model")  # fmt: skip
