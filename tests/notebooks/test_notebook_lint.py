"""The rules hold for our notebooks, and each rule turns red on a notebook that breaks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.lint import NOTEBOOKS, lint

PARAMETERS = 'model: str = "tiny-llama"\nsize: str = "smoke"\nout: str = "runs/x"\ninteractive: bool = False'


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_keeps_the_rules(path):
    assert lint(path) == []


def code(text: str, *tags: str) -> dict[str, Any]:
    cell = {"id": f"c{abs(hash(text)) % 10**8}", "cell_type": "code", "execution_count": None, "outputs": []}
    return cell | {"source": text, "metadata": {"tags": list(tags)}}


def good() -> dict[str, Any]:
    return {
        "cells": [
            {
                "id": "title",
                "cell_type": "markdown",
                "metadata": {},
                "source": "# A [link](here.md#part), [one](https://a.b)",
            },
            code(PARAMETERS, "parameters"),
            code("from mindport import report, tables\nfrom mindport.errors import FileError"),
            code("double = lambda x: 2 * x\ndouble(21)"),
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def found(tmp_path: Path, notebook: dict[str, Any]) -> str:
    (tmp_path / "here.md").touch()
    path = tmp_path / "00_synthetic.ipynb"
    path.write_text(json.dumps(notebook))
    return "\n".join(lint(path))


def test_a_good_notebook_has_no_faults(tmp_path):
    assert found(tmp_path, good()) == ""


def parameters(text: str) -> Callable[[dict[str, Any]], None]:
    return lambda notebook: notebook["cells"][1].update(source=text)


def added(*texts: str) -> Callable[[dict[str, Any]], None]:
    return lambda notebook: notebook["cells"].extend(map(code, texts))


FAULTS = {
    "an output is stored": (lambda nb: nb["cells"][2].update(outputs=[{"output_type": "stream"}]), "stores an output"),
    "an execution count": (lambda nb: nb["cells"][2].update(execution_count=3), "execution count"),
    "a cell without id": (lambda nb: nb["cells"][2].pop("id"), "has no id"),
    "a private kernel": (lambda nb: nb["metadata"]["kernelspec"].update(name="conda-x"), "not 'python3'"),
    "no kernel": (lambda nb: nb["metadata"].pop("kernelspec"), "not 'python3'"),
    "widget state": (lambda nb: nb["metadata"].update(widgets={}), "widgets"),
    "no parameters cell": (lambda nb: nb["cells"].pop(1), "0 cells are tagged"),
    "two parameters cells": (lambda nb: nb["cells"].append(code(PARAMETERS, "parameters")), "2 cells are tagged"),
    "a computed parameter": (parameters(PARAMETERS + "\nsteps = 2 * 3 + len('ab')"), "more than literals"),
    "an undeclared parameter": (parameters('model = "m"\nsize = "s"\nout = "o"'), "does not declare interactive"),
    "a long cell": (added("\n".join(f"x{i} = {i}" for i in range(16))), "16 lines of code"),
    "long cells": (added(*["a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6"] * 9), "most cells"),
    "much code": (added(*["a = 1\nb = 2\nc = 3\nd = 4\ne = 5"] * 26), "more than 130"),
    "a long function": (added("def f(x):\n    y = x\n    z = y\n    return z"), "def f"),
    "a class": (added("class A: pass"), "class A"),
    "a shell command": (added("!pip install x"), "'!pip install x'"),
    "a magic": (added("x = 1\n%cd .."), "'%cd ..'"),
    "an absolute path": (added('open("/data/models")'), "'/data/models' is an absolute path"),
    "a home path": (added('open("~/models")'), "absolute path"),
    "a syntax error": (added("x = ="), "invalid syntax"),
    "a missing module": (added("import mindport.nowhere"), "no module mindport.nowhere"),
    "a missing room": (added("from mindport.nowhere import x"), "no module mindport.nowhere"),
    "a missing name": (added("from mindport.errors import Fault"), "mindport.errors has no Fault"),
    "a dead link": (lambda nb: nb["cells"][0].update(source="[x](there.ipynb)"), "there.ipynb leads nowhere"),
    "a size outside": (added('small = size == "small"'), "'small' is named outside"),
    "a model outside": (added('resolve("smollm2")'), "'smollm2' is named outside"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_rule_turns_red(tmp_path, fault):
    plant, message = FAULTS[fault]
    notebook = good()
    plant(notebook)
    assert message in found(tmp_path, notebook)
