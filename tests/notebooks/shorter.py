"""Copies of the notebooks without the experiments that are the same whatever the model is: one model runs those."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat

from tests.notebooks.lint import NOTEBOOKS

# calls that are given no model: they take bundled ones, or none
ALIKE = ("debug.bundled_lab", "debug.late_errors", "modes.compare_modes", "cases.run_cases", "scaled_run",
         "debug.fault_lab", "lessons.kill_and_resume", "lessons.rehearse_alarms", "lessons.poisoned_run")  # fmt: skip


def shorter_notebooks(folder: Path) -> Path:
    """All notebooks, each cell without the statements that make or use what one of `ALIKE` returns."""
    folder.mkdir(parents=True)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook, gone = nbformat.read(path, as_version=4), set[str]()
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.source = without(cell.source, gone)
        nbformat.write(notebook, folder / path.name)
    return folder


def without(source: str, gone: set[str]) -> str:
    """A cell without those statements; `gone` are the names that nothing has, and more are added."""
    kept, statements = [], ast.parse(source).body
    for statement in statements:
        shown = ast.unparse(_Entries(gone).visit(statement))
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or not uses(statement, gone):
            kept.append(shown)
        else:
            gone |= {node.id for node in ast.walk(statement) if _is(node, ast.Store)}
    return source if "\n".join(kept) == ast.unparse(ast.parse(source)) else "\n".join(kept)


def uses(statement: ast.AST, gone: set[str]) -> bool:
    """Whether it calls one of `ALIKE`, or reads a name that nothing has."""
    return any(
        (isinstance(node, ast.Call) and ast.unparse(node.func) in ALIKE) or (_is(node, ast.Load) and node.id in gone)
        for node in ast.walk(statement)
    )


def _is(node: ast.AST, context: type[ast.expr_context]) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, context)


class _Entries(ast.NodeTransformer):
    """A record lists what there is: of its dictionaries only the entries go, unless none would be left."""

    def __init__(self, gone: set[str]) -> None:
        self.gone = gone

    def visit_Dict(self, node: ast.Dict) -> ast.Dict:
        there = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if not uses(value, self.gone)]
        if there:
            node.keys, node.values = [key for key, _ in there], [value for _, value in there]
        return node
