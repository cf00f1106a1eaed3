"""What the room offers under its own name is there."""

import importlib

import pytest

from mindport import parallel


@pytest.mark.parametrize("name", parallel.__all__)
def test_a_name_is_looked_up_when_it_is_asked_for(name):
    assert callable(getattr(parallel, name))
    assert getattr(importlib.import_module("mindport.parallel"), name) is getattr(parallel, name)


def test_what_is_not_there_is_no_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'planner'"):
        _ = parallel.planner
