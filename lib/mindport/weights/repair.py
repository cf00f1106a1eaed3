"""A mapping with one wrong name, and a name put right: what the exercise of notebook 02 is made of."""

from __future__ import annotations

import dataclasses

from mindport.config.dialect import Dialect
from mindport.errors import UsageError, some


def break_row(dialect: Dialect, hub: str, module: str) -> Dialect:
    """The family with one row that names another module: o_proj.weight becomes out_proj.weight.

    Args:
        dialect: the family.
        hub: the parameter(s) of the row, `{}` for the layer.
        module: the wrong name of the module that holds the tensor.

    Raises:
        UsageError: the family has no such row, or the name is the right one.
    """
    right = _foreign(dialect, hub)
    place, _, what = right.rpartition(".")
    wrong = f"{place.rpartition('.')[0]}.{module}.{what}"
    if wrong == right:
        raise UsageError("this name is the right one, so nothing breaks", where=hub, got=module)
    return with_name(dialect, hub, wrong)


def with_name(dialect: Dialect, hub: str, foreign: str) -> Dialect:
    """The family with another foreign name in the row of `hub`.

    Raises:
        UsageError: the family has no such row.
    """
    _foreign(dialect, hub)
    rows = [dataclasses.replace(row, foreign=foreign) if row.hub == hub else row for row in dialect.rows]
    return dataclasses.replace(dialect, rows=tuple(rows))


def _foreign(dialect: Dialect, hub: str) -> str:
    found = {row.hub: row.foreign for row in dialect.rows}
    if hub not in found:
        raise UsageError(f"{dialect.model_type} has no such row", got=hub, expected=some(found, 20))
    return found[hub]
