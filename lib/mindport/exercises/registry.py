"""Every question there is, by id; a step whose notebook asks has a module in `MODULES`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from mindport.errors import UsageError
from mindport.exercises.exercise import Exercise

MODULES = ("step_00", "step_01", "step_02", "step_03", "step_04", "step_05", "step_06", "step_07")


def registry() -> dict[str, Exercise]:
    """The questions of all steps.

    Raises:
        ModuleNotFoundError: a step of `MODULES` has no file.
        UsageError: a question carries the digits of another step.
    """
    found: dict[str, Exercise] = {}
    for module in MODULES:
        found |= _checked(module, importlib.import_module(f"mindport.exercises.{module}").EXERCISES)
    return found


def _checked(module: str, exercises: Mapping[str, Exercise]) -> dict[str, Exercise]:
    prefix = module.removeprefix("step_") + "."
    if strangers := [name for name in exercises if not name.startswith(prefix)]:
        raise UsageError("an exercise is named after its step", where=module, got=strangers, expected=f"{prefix}name")
    return dict(exercises)
