"""Importing mindport.model makes a CPU run operators where they are called."""

from __future__ import annotations

import subprocess
import sys

import pytest

# an index beyond the table fails at once, or at a later synchronisation, which never comes here
LATE = """
import numpy as np, mindspore as ms
from mindspore import ops
{0}
table, index = ms.Tensor(np.zeros((2, 3), np.float32)), ms.Tensor(np.array([[7]], np.int32))
try:
    out = ops.GatherD()(table, 1, index)
    print("late")
except Exception:
    print("at once")
import os; os._exit(0)
"""


@pytest.mark.parametrize(("line", "when"), [("import mindport.model", "at once"), ("", "late")])
def test_an_error_comes_from_the_operator_that_caused_it(line, when):
    done = subprocess.run([sys.executable, "-c", LATE.format(line)], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[-2] == when
