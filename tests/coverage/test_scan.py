"""Source is read, never run; what cannot be read is named."""

import os
import sys

import pytest

from mindport.coverage.scan import LARGEST, find_source, scan
from mindport.errors import FileError, UsageError


def test_places_are_files_and_lines(source):
    path = source("import torch\n\ntorch.relu(x)\n")
    assert scan(path).uses == (("torch.relu", "model.py:3"),)


def test_a_directory_is_all_its_files(source, tmp_path):
    source("import torch\ntorch.relu(x)", "a/one.py")
    source("x.view(2)", "a/two.py")  # no torch, so no tensor
    source("import torch\ntorch.tanh(x)", ".hidden/three.py")
    usage = scan(tmp_path)
    assert usage.uses == (("torch.relu", "a/one.py:2"),)
    assert usage.files == 2


def test_a_thousand_files(source, tmp_path):
    for number in range(1000):
        source(f"import torch\ntorch.relu({number})", f"part{number % 10}/m{number}.py")
    usage = scan(tmp_path)
    assert (usage.files, len(usage.uses), usage.unread) == (1000, 1000, ())


def test_nothing_is_executed(source, tmp_path):
    source(f"import torch\nopen({str(tmp_path / 'trace')!r}, 'w')\nraise SystemExit\ntorch.relu(x)")
    assert len(scan(tmp_path / "model.py").uses) == 1
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("def f(:\n", "invalid syntax, line 1"),
        ("print 'Python 2'\n", "Missing parentheses"),
        (b"\x7fELF\x00\x01\x02", "null bytes"),
        (b"\xff\xfe\x00", "n"),
        ("# coding: no-such-code\nimport torch\n", "unknown encoding"),
        ("(" * 1000 + ")" * 1000, "parentheses"),
        ("x = " + "-" * 5000 + "1\n", ""),
    ],
)
def test_what_is_no_python_is_refused(source, text, got):
    with pytest.raises(FileError, match="not Python source") as caught:
        scan(source(text))
    assert got in str(caught.value.got)


def test_a_notebook_is_told_the_way(source):
    with pytest.raises(FileError, match="nbconvert"):
        scan(source('{"cells": [}', "model.ipynb"))


def test_a_broken_file_in_a_directory_is_counted(source, tmp_path):
    source("import torch\ntorch.relu(x)", "good.py")
    source("print 'Python 2'", "old.py")
    usage = scan(tmp_path)
    assert usage.files == 2
    [(file, why)] = usage.unread
    assert file.endswith("old.py")
    assert "Missing parentheses" in why


@pytest.mark.parametrize("text", ["", "import numpy\nx.view(2)\n", "'a text'"])
def test_a_file_without_torch_is_the_wrong_file(source, text):
    with pytest.raises(FileError, match="nothing here imports torch"):
        scan(source(text))


def test_an_empty_directory_is_refused(tmp_path):
    with pytest.raises(FileError, match="no Python source"):
        scan(tmp_path)


def test_a_missing_file_a_pipe_and_a_giant_are_refused(tmp_path):
    with pytest.raises(FileError, match="nothing of that name"):
        scan(tmp_path / "none.py")
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(FileError, match="a pipe"):
        scan(tmp_path / "pipe.py")
    (tmp_path / "giant.py").touch()
    os.truncate(tmp_path / "giant.py", LARGEST + 1)
    with pytest.raises(FileError, match="too large"):
        scan(tmp_path / "giant.py")


def test_a_star_import_is_mentioned(source):
    [note] = scan(source("from torch.nn.functional import *\nsoftmax(x)")).notes
    assert note.startswith("model.py:1: `from torch.nn.functional import *`")


def test_a_module_is_found_without_running_its_package(source, tmp_path, monkeypatch):
    source("raise SystemExit('imported')", "package/__init__.py")
    path = source("import torch", "package/model.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_source("package.model") == path
    assert find_source("package") == tmp_path / "package"
    assert "package" not in sys.modules


@pytest.mark.parametrize("name", ["no_such_module", "package.none", "sys", "math"])
def test_a_module_that_is_not_there_is_refused(name):
    with pytest.raises(UsageError, match="no such file, directory or module"):
        find_source(name)
