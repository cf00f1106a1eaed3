"""An error says what, where, got, expected, and what to do."""

from __future__ import annotations

import inspect

import pytest

from mindport import errors
from mindport.errors import FileError, MindPortError, first_line, some

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, MindPortError)]


def test_the_parts_stand_under_the_fault_in_order():
    error = FileError("the file is missing", do="fetch it", got=None, where="a/b.json", expected=0)
    assert str(error) == "the file is missing\n  where:    a/b.json\n  expected: 0\n  do:       fetch it"
    assert (error.where, error.got, error.expected, error.do) == ("a/b.json", None, 0, "fetch it")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_caught_as_a_mindport_error_and_is_in_the_tree(kind):
    with pytest.raises(MindPortError, match=r"^x$"):
        raise kind("x")
    assert kind.__name__ in (errors.__doc__ or "")


def test_a_long_list_of_names_is_cut_and_counted():
    assert some([]) == ""
    assert some(["a", "b", "c"]) == "a, b, c"
    assert some(iter("abcdefg")) == "a, b, c (+4 more)"
    assert some([1, 2], limit=1) == "1 (+1 more)"


@pytest.mark.parametrize(
    ("message", "said"), [("", ""), ("\n----\n  The shape is wrong. \n at x.cc:3", "The shape is wrong."), (" - ", "")]
)
def test_of_an_essay_the_first_line_is_told(message, said):
    assert first_line(RuntimeError(message)) == said
