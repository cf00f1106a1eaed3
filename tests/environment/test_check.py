import pytest

from mindport.environment.check import Check
from mindport.errors import BackendError


@pytest.mark.parametrize("state", ["warning", "error"])
def test_a_warning_or_error_must_say_what_to_do(state):
    with pytest.raises(ValueError, match="must say what to do"):
        Check("disk", "system", state, "1 GiB free")


def test_there_are_three_states():
    with pytest.raises(ValueError, match="'fine'"):
        Check("disk", "system", "fine", "1 GiB free", do="nothing")


def test_require_stops_on_an_error_and_says_all_of_it():
    error = Check("disk", "system", "error", "0.1 GiB free", "5 GiB", "free space")
    with pytest.raises(BackendError, match=r"disk\n.*0\.1 GiB free\n.*5 GiB\n.*free space"):
        error.require()


def test_require_lets_a_warning_through():
    warning = Check("disk", "system", "warning", "2 GiB free", "5 GiB", "free space")
    assert warning.require() is warning
