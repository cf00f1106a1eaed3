"""The models of the parity tests."""

from tests.parity.conftest import case  # noqa: F401
