"""The lab's models, each made once for all tests that look at it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mindport.debug.faultlab import BUNDLED, Ground, ground_at
from mindport.parity.tiny import MODELS
from mindport.sources import resolve

NAMES = (*BUNDLED, *MODELS)


@pytest.fixture(scope="session")
def ground(tmp_path_factory) -> Callable[[str], Ground]:
    """name → the model, converted, and its trace; torch runs in this process here, in one of its own in the lab."""
    made: dict[str, Ground] = {}

    def get(name: str) -> Ground:
        if name not in made:
            from mindport.parity.reference import record
            from mindport.parity.reference_tiny import make

            place = tmp_path_factory.mktemp("lab") / name
            if name in MODELS:
                make(name, place.parent)
            else:
                record(resolve(name), place / "trace")
            made[name] = ground_at(name, place)
        return made[name]

    return get


@pytest.fixture(scope="session")
def grounds(ground) -> list[Ground]:
    return [ground(name) for name in NAMES]
