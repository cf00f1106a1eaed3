"""The constants of a device: value, range and source of each, from `hardware.yaml`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mindport.errors import UsageError

FILE = Path(__file__).with_name("hardware.yaml")
FRACTIONS = ("fraction", "of the peak")


@dataclass(frozen=True)
class Constant:
    """A figure that the planner takes from elsewhere, with the range that sources leave."""

    value: float
    low: float
    high: float
    unit: str
    source: str


@dataclass(frozen=True)
class Hardware:
    """A device with all its constants; `hardware["peak"]` is a value.

    Attributes:
        device: the variant, such as 910B3.
        generation: what shares one calibration.
        bf16: whether it computes in bfloat16.
        constants: by name.
    """

    device: str
    generation: str
    bf16: bool
    constants: dict[str, Constant]

    def __getitem__(self, name: str) -> float:
        return self.constants[name].value

    def with_values(self, values: Mapping[str, float]) -> Hardware:
        """The same with other values.

        Raises:
            UsageError: no such constant, or not a possible value of it.
        """
        changed = {name: replace(self._known(name), value=_possible(name, value, self._known(name)), source="given")
                   for name, value in values.items()}  # fmt: skip
        return replace(self, constants={**self.constants, **changed})

    def _known(self, name: str) -> Constant:
        if name not in self.constants:
            raise UsageError("no such constant", got=name, expected=", ".join(self.constants))
        return self.constants[name]


def hardware(device: str) -> Hardware:
    """The constants of a device by its name; a generation's name is its usual variant.

    Raises:
        UsageError: no such device.
    """
    data = read()
    name = data["names"].get(device, device)
    if name not in data["devices"]:
        raise UsageError("no constants for this device", got=device,
                         expected=", ".join([*data["names"], *data["devices"]]))  # fmt: skip
    own = dict(data["devices"][name])
    family = data["generations"][generation := own.pop("generation")]
    values = {**data["constants"], "efficiency": family["efficiency"], **own}
    constants = {key: Constant(**value) for key, value in sorted(values.items())}
    return Hardware(name, generation, family["bf16"], constants)


def parse_settings(texts: list[str]) -> dict[str, float]:
    """`["peak=313e12"]` → `{"peak": 313e12}`.

    Raises:
        UsageError: not a name and a number.
    """
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise UsageError("not a setting", got=repr(text), expected="name=number, such as peak=313e12") from None
    return found


@cache
def read(path: Path = FILE) -> dict[str, Any]:
    """A data file of the planner."""
    import yaml

    return yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _possible(name: str, value: float, constant: Constant) -> float:
    """Overlaps and shares are from 0 to 1, what is divided by is above 0."""
    zero = constant.low == 0 or constant.unit in (*FRACTIONS, "s")
    highest = 1.0 if constant.unit in FRACTIONS else math.inf
    if name == "efficiency":
        zero = False
    if not math.isfinite(value) or value > highest or value < 0 or (value == 0 and not zero):
        limits = f"{'from' if zero else 'above'} 0" + (" to 1" if highest == 1 else "")
        raise UsageError("not a possible value of this constant", where=f"{name} ({constant.unit})", got=value,
                         expected=limits)  # fmt: skip
    return value
