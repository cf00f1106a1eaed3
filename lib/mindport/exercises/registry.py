"""Every question there is, by id; a notebook without questions has no module here."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping

from mindport.errors import UsageError
from mindport.exercises.exercise import Exercise

MODULES = ("step_00", "step_01", "step_02", "step_03")


def registry() -> dict[str, Exercise]:
    """The questions of all steps."""
    found: dict[str, Exercise] = {}
    for module in MODULES:
        name = f"mindport.exercises.{module}"
        if importlib.util.find_spec(name):
            found |= _checked(module, importlib.import_module(name).EXERCISES)
    return found


def _checked(module: str, exercises: Mapping[str, Exercise]) -> dict[str, Exercise]:
    prefix = module.removeprefix("step_") + "."
    if strangers := [name for name in exercises if not name.startswith(prefix)]:
        raise UsageError("an exercise is named after its step", where=module, got=strangers, expected=f"{prefix}name")
    return dict(exercises)
