"""The models of the model's tests."""

from tests.model.conftest import pair  # noqa: F401
