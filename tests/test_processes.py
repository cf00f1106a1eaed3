"""A process of ours finds the package from anywhere, and how it ended is said in words."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mindport.processes import PACKAGE, ending, environment, last_line


def test_the_package_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("WORD", "theirs")
    code = "import mindport, os; print(mindport.__file__, os.environ['WORD'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(WORD="ours"), capture_output=True, text=True
    )
    assert done.stdout.split() == [str(PACKAGE / "mindport" / "__init__.py"), "ours"], done.stderr
    assert environment()["PYTHONPATH"].split(os.pathsep) == ["elsewhere", str(PACKAGE)]


@pytest.mark.parametrize(
    ("code", "said"), [(0, "exit code 0"), (3, "exit code 3"), (-11, "signal 11 (Segmentation fault)"), (-35, "signal")]
)
def test_an_ending_is_said(code, said):
    assert ending(code).startswith(said)


def test_the_last_line_is_one_that_says_something():
    assert last_line("first\n  second \n\n") == "second" and last_line("\n \n") == last_line("") == ""
