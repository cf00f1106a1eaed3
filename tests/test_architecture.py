"""The plan of the house: which room may import which, what stays light, and how big it may grow."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

LIB = Path(__file__).parents[1] / "lib"
PACKAGE = LIB / "mindport"
FILES = sorted(PACKAGE.rglob("*.py"))

# A room may import the rooms before it.
ROOMS = (
    "errors", "files", "tables", "results", "machine", "places", "processes", "process_table", "fork_server", "ranks",
    "environment", "sources", "config", "weights", "mindformers", "model", "measure", "training", "parity", "tracing",
    "claims", "coverage", "debug", "parallel", "tuning", "deploy", "report", "display", "exercises", "notebook", "run",
    "commands", "cli", "__main__",
)  # fmt: skip
LIGHT = (
    "", "errors", "files", "tables", "results", "machine", "processes", "process_table", "fork_server", "ranks",
    "environment", "environment.doctor", "sources", "config", "weights", "mindformers", "training.checkpoint",
    "training.config", "training.data", "training.monitor", "tracing", "claims", "coverage", "parallel.plan",
    "parallel.launch", "parallel.reshard", "parallel.route", "parallel.ascend", "parallel.variables", "report",
    "display", "exercises", "notebook", "run", "commands", "cli",
)  # fmt: skip
FRAMEWORKS = {"mindspore", "torch", "transformers"}
LATER = ("debug/", "parallel/", "tuning/", "deploy/")
WHERE = {
    "mindspore": ("model/", "training/", "parity/ours", "weights/checkpoint", "tracing/mindspore_side", "claims/tools",
                  *LATER),
    # the reader is for pytorch_model.bin; the peer of the benchmarks has a process of its own
    "torch": ("parity/reference", "parity/float64", "weights/readers", "tuning/torch_peer", "tracing/torch_side"),
    "transformers": ("parity/reference",),
}  # fmt: skip
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
CODE_LINES, FILE_LINES, FUNCTION_LINES = 36_300, 400, 40


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room(path: Path) -> str:
    return relative(path).split("/")[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    """The dotted names that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def later_rooms(path: Path, text: str) -> list[str]:
    """The rooms after its own that a file imports."""
    names = (name.split(".") for name in imported(ast.parse(text)))
    rooms = {parts[1] for parts in names if parts[0] == "mindport" and len(parts) > 1 and parts[1] in ROOMS}
    return sorted(other for other in rooms if ROOMS.index(other) > ROOMS.index(room(path)))


def misplaced_frameworks(path: Path, text: str) -> list[str]:
    names = {name.split(".")[0] for name in imported(ast.parse(text))} & FRAMEWORKS
    return sorted(name for name in names if not relative(path).startswith(WHERE[name]))


def is_probe(path: Path) -> bool:
    """The doctor's scripts run in processes of their own, and do the thing that they probe."""
    return relative(path).startswith(("environment/scripts/", "environment/faults/", "coverage/scripts/"))


def test_every_room_has_its_place():
    rooms = {room(path) for path in FILES if "/" in relative(path) or path.stem != "__init__"}
    assert rooms <= set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_room_imports_earlier_rooms_only(path):
    if relative(path) != "__init__.py":
        assert later_rooms(path, path.read_text()) == []


@pytest.mark.parametrize("path", [path for path in FILES if not is_probe(path)], ids=relative)
def test_frameworks_stay_in_their_rooms(path):
    assert misplaced_frameworks(path, path.read_text()) == []


def test_the_scans_turn_red():
    path = PACKAGE / "config" / "read.py"
    assert later_rooms(path, "def f():\n    from mindport.model import gpt\n    from mindport import errors") == [
        "model"
    ]
    assert later_rooms(path, "from mindport import display") == ["display"]
    assert misplaced_frameworks(path, "def f():\n    import torch.nn") == ["torch"]


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_only_the_notebooks_and_the_command_line_import_display(path):
    if room(path) not in ("display", "cli"):
        assert not [name for name in imported(ast.parse(path.read_text())) if name.startswith("mindport.display")]


@pytest.mark.parametrize("name", LIGHT)
def test_a_light_room_brings_no_framework(name):
    module = f"mindport.{name}".rstrip(".")
    code = f"import sys, {module}; print(*sorted({FRAMEWORKS!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=LIB, timeout=300)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


def test_the_probe_of_lightness_turns_red():
    code = f"import sys, safetensors.torch; print(*sorted({FRAMEWORKS!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "torch\n"


def test_the_library_stays_small():
    texts = {relative(path): path.read_text() for path in FILES}
    assert sum(map(code_lines, texts.values())) <= CODE_LINES
    assert [name for name, text in texts.items() if len(text.splitlines()) > FILE_LINES] == []


def test_code_is_counted_without_its_prose():
    text = '"""Doc."""\n\n# why\ndef f(x):  # what\n    """Doc,\n    more."""\n    return (\n        x\n    )\n'
    assert code_lines(text) == 4


def code_lines(text: str) -> int:
    """Lines that hold code; docstrings, comments and blank lines are not counted."""
    prose = {line for node in ast.walk(ast.parse(text)) for line in docstring_lines(node)}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return len({n for t in tokens if t.type not in LAYOUT for n in range(t.start[0], t.end[0] + 1)} - prose)


def docstring_lines(node: ast.AST) -> range:
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) or ast.get_docstring(node) is None:
        return range(0)
    return range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_functions_stay_short(path):
    functions = [
        n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert {f.name: size for f in functions if (size := body_lines(f)) > FUNCTION_LINES} == {}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of code: what a docstring takes is not counted."""
    first = function.body[1] if ast.get_docstring(function) and len(function.body) > 1 else function.body[0]
    return (function.end_lineno or 0) - first.lineno + 1
