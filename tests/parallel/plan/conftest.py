"""One validation for all tests that look at it."""

from __future__ import annotations

import pytest

from mindport.parallel.plan import Validation, validate


@pytest.fixture(scope="session")
def validation() -> Validation:
    return validate()
