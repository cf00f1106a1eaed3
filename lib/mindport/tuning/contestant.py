"""What a module with contestants offers, and how one of them is named.

A module of contestants (`ours`, `torch_peer`, `naive`) has functions that take settings (JSON values) and return a
`Built`. A `Contestant` names one; `race` starts a process for it, where `worker` calls the function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Built:
    """One computation, ready to be timed.

    Attributes:
        run: compute once, to the end.
        values: what was computed, by name; called after `run`.
        about: JSON values that the record should have (threads, paths of kernels).
    """

    run: Callable[[], object]
    values: Callable[[], dict[str, np.ndarray]]
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Contestant:
    """One contestant, and how to build it.

    Attributes:
        name: in tables.
        module: that holds it, by its full name.
        function: that builds it.
        settings: its arguments.
        optional: a case goes on without it when it cannot be built, and says so.
    """

    name: str
    module: str
    function: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = False
