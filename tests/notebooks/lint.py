"""Static rules for the notebooks; `python tests/notebooks/lint.py` prints what breaks them.

A notebook tells a story in short cells: what it computes lives in the library, where it is tested.
"""

from __future__ import annotations

import ast
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"

PARAMETERS = {"size", "model", "out", "interactive"}
SIZES = {"smoke", "small", "full", "smollm2", "tiny-gpt2", "tiny-llama"}  # chosen in the parameters cell, nowhere else
CODE_LINES, CELL_LINES, USUAL_CELL_LINES, DEF_LINES = 130, 15, 5, 3
ABSOLUTE = re.compile(r"^(/[A-Za-z]\w*|~|[A-Za-z]:\\)")
LINK = re.compile(r"\]\(([^)\s]+)\)")

Notebook = dict[str, Any]
Faults = Iterator[str]


def lint(path: Path) -> list[str]:
    """Every fault of one notebook, as `name: cell N: fault`."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [f"{path.name}: {fault}" for rule in RULES for fault in rule(notebook, path)]


def clean_file(notebook: Notebook, _: Path) -> Faults:
    kernel = notebook.get("metadata", {}).get("kernelspec", {}).get("name")
    if kernel != "python3":
        yield f"the kernel is {kernel!r}, not 'python3'"
    if "widgets" in notebook.get("metadata", {}):
        yield "the state of widgets is stored"
    for index, cell in enumerate(notebook["cells"]):
        if not cell.get("id"):
            yield f"cell {index}: has no id"
        if cell.get("outputs"):
            yield f"cell {index}: stores an output"
        if cell.get("execution_count") is not None:
            yield f"cell {index}: stores an execution count"


def one_parameters_cell(notebook: Notebook, _: Path) -> Faults:
    tagged = [cell for cell in notebook["cells"] if "parameters" in cell.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        yield f"{len(tagged)} cells are tagged `parameters`, not one"
        return
    names = set()
    for node in ast.parse(source(tagged[0])).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not is_literal(node.value):
            yield f"the parameters cell holds more than literals: {ast.unparse(node)}"
            continue
        names |= {ast.unparse(target) for target in (node.targets if isinstance(node, ast.Assign) else [node.target])}
    if missing := sorted(PARAMETERS - names):
        yield f"the parameters cell does not declare {', '.join(missing)}"


def budgets(notebook: Notebook, _: Path) -> Faults:
    lengths = {index: len(code_lines(source(cell))) for index, cell in code_cells(notebook)}
    for index, length in lengths.items():
        if length > CELL_LINES:
            yield f"cell {index}: {length} lines of code, more than {CELL_LINES}"
    if sum(lengths.values()) > CODE_LINES:
        yield f"{sum(lengths.values())} lines of code, more than {CODE_LINES}"
    if lengths and statistics.median(lengths.values()) > USUAL_CELL_LINES:
        yield f"most cells have more than {USUAL_CELL_LINES} lines"


def plain_python(notebook: Notebook, _: Path) -> Faults:
    """No shell, no magic, no classes, no long functions, no absolute paths, and it parses."""
    for index, cell in code_cells(notebook):
        if magic := [line for line in source(cell).splitlines() if line.lstrip().startswith(("!", "%"))]:
            yield f"cell {index}: {magic[0].strip()!r} is for a shell"
            continue
        try:
            tree = ast.parse(source(cell))
        except SyntaxError as error:
            yield f"cell {index}: {error}"
            continue
        yield from (f"cell {index}: {fault}" for node in ast.walk(tree) for fault in node_faults(node))


def node_faults(node: ast.AST) -> Faults:
    if isinstance(node, ast.ClassDef):
        yield f"class {node.name} belongs in the library"
    if isinstance(node, ast.FunctionDef) and len(ast.unparse(node).splitlines()) > DEF_LINES:
        yield f"def {node.name} has more than {DEF_LINES} lines"
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and ABSOLUTE.match(node.value):
        yield f"{node.value!r} is an absolute path"


def sizes_are_parameters(notebook: Notebook, _: Path) -> Faults:
    """A size or a model that is named outside the parameters cell goes round the one switch."""
    for index, cell in code_cells(notebook):
        if "parameters" in cell.get("metadata", {}).get("tags", []):
            continue
        for node in walk(source(cell)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in SIZES:
                yield f"cell {index}: {node.value!r} is named outside the parameters cell"


def imports_exist(notebook: Notebook, _: Path) -> Faults:
    for index, cell in code_cells(notebook):
        for node in walk(source(cell)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mindport":
                names = [alias.name for alias in node.names]
                yield from (f"cell {index}: {fault}" for fault in missing_names(node.module or "", names))
            if isinstance(node, ast.Import):
                ours = [alias.name for alias in node.names if alias.name.split(".")[0] == "mindport"]
                yield from (f"cell {index}: there is no module {name}" for name in ours if module_file(name) is None)


def missing_names(module: str, names: list[str]) -> Faults:
    file = module_file(module)
    if file is None:
        yield f"there is no module {module}"
        return
    defined = top_level(file)
    yield from (
        f"{module} has no {name}" for name in names if name not in defined and not module_file(f"{module}.{name}")
    )


def links_resolve(notebook: Notebook, path: Path) -> Faults:
    for index, cell in enumerate(notebook["cells"]):
        for target in LINK.findall(source(cell)) if cell["cell_type"] == "markdown" else ():
            file = target.partition("#")[0]
            if file and not re.match(r"[a-z]+:", file) and not (path.parent / file).exists():
                yield f"cell {index}: the link {target} leads nowhere"


RULES: tuple[Callable[[Notebook, Path], Faults], ...] = (
    clean_file, one_parameters_cell, budgets, plain_python, sizes_are_parameters, imports_exist, links_resolve,
)  # fmt: skip


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def code_cells(notebook: Notebook) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((index, cell) for index, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code")


def code_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def walk(text: str) -> Iterator[ast.AST]:
    """The nodes of a cell; one that does not parse is another rule's fault."""
    try:
        return ast.walk(ast.parse(text))
    except SyntaxError:
        return iter(())


def is_literal(node: ast.expr | None) -> bool:
    try:
        ast.literal_eval(node)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return False
    return True


def module_file(name: str) -> Path | None:
    """Where a module of ours is, without importing it: the model needs MindSpore, this check does not."""
    base = ROOT / "lib" / Path(*name.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists()), None)


def top_level(file: Path) -> set[str]:
    """The names that a module binds at its top level, or looks up when they are asked for."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names |= set(ast.literal_eval(node.value))  # with a `__getattr__`; a test imports what stands there
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names |= {
                each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
    return names


def main() -> int:
    faults = [fault for path in sorted(NOTEBOOKS.glob("*.ipynb")) for fault in lint(path)]
    print("\n".join(faults) or "the notebooks keep the rules")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
