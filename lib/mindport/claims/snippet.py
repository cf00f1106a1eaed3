"""A check: a few lines of Python that do what a claim is about, and end in what was seen.

    default = default_of(nn.LayerNorm, "epsilon")
    {f"nn.LayerNorm's default is 1e-5 (it is {default:g})": default == 1e-5,
     "an epsilon can be passed": accepts(nn.LayerNorm, "epsilon")}

The last expression is a sub-claim, or a dictionary of them: True, or a text that says what was seen, counts for the
claim, False or an empty text against it. All for it: the claim holds; none: it is false; some: partly. An `assert`
before it holds the practice that is recommended: where it fails, the entry is out of date whatever became of the claim.

Names come without an import: `ms`, `np`, `torch`, … and the tools of `tools.py`. The code stands in a file while it
runs, because MindSpore compiles the text of a function.
"""

from __future__ import annotations

import ast
import importlib
import sys
import types
from pathlib import Path

NAMES = {
    "ms": "mindspore", "nn": "mindspore.nn", "ops": "mindspore.ops", "mint": "mindspore.mint",
    "dataset": "mindspore.dataset", "np": "numpy", "torch": "torch", "transformers": "transformers", "math": "math",
    "os": "os", "sys": "sys", "subprocess": "subprocess", "Path": "pathlib.Path", "Tensor": "mindspore.Tensor",
    "Parameter": "mindspore.Parameter",
}  # fmt: skip
TOOLS = (
    "accepts", "both", "default_of", "fresh", "gap", "gradients", "graph", "has", "numpy", "parameters", "pynative",
    "raises", "rows_of",
)  # fmt: skip
ANSWER, SENTENCE = "answer_of_the_check", "sentence_of_the_check"

Seen = dict[str, "bool | str"]


def why_unusable(source: str, is_check: bool) -> str:
    """Why this cannot be a check, or the code of a set-up; "" when it can."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"it is not Python: {error}"
    if is_check and not (tree.body and isinstance(tree.body[-1], ast.Expr)):
        return "it does not end in an expression"
    return ""


def run_snippet(name: str, source: str, given: dict[str, object] | None = None) -> types.ModuleType:
    """Run the code as the module `name`, with `given` names; its last expression becomes the module's `ANSWER`.

    The file is written into the working directory.
    """
    file = Path(f"{name}.py").absolute()
    file.write_text(source, encoding="utf-8")
    tree = ast.parse(source, str(file))
    module = types.ModuleType(name)
    module.__file__ = str(file)
    if isinstance(last := tree.body[-1], ast.Expr):
        vars(module)[SENTENCE] = ast.get_source_segment(source, last.value)
        target = ast.Name(ANSWER, ast.Store())
        tree.body[-1] = ast.fix_missing_locations(ast.copy_location(ast.Assign([target], last.value), last))
    vars(module).update(_names(tree) | (given or {}))
    _seed()
    sys.modules[name] = module  # where MindSpore looks for the class whose text it compiles
    exec(compile(tree, str(file), "exec"), vars(module))
    return module


def answer(module: types.ModuleType) -> Seen:
    """The sub-claims of a check that has run.

    Raises:
        TypeError: it ended in something else.
    """
    value = getattr(module, ANSWER)
    seen = value if isinstance(value, dict) else {getattr(module, SENTENCE): value}
    seen = {key: bool(item) if type(item).__name__ in ("bool_", "bool") else item for key, item in seen.items()}
    if not seen or not all(isinstance(k, str) and isinstance(v, (bool, str)) for k, v in seen.items()):
        raise TypeError(f"a check ends in True or False, a text, or a dictionary of them by sentences, not {value!r}")
    return seen


def verdict(seen: Seen) -> str:
    """holds, partly or false, by the sub-claims."""
    kept = [bool(value) for value in seen.values()]
    return "holds" if all(kept) else "partly" if any(kept) else "false"


def evidence(seen: Seen) -> tuple[str, ...]:
    """What was seen, a line for each sub-claim."""
    return tuple(f"{sentence}: {_said(value)}" for sentence, value in seen.items())


def _said(value: bool | str) -> str:
    return value if isinstance(value, str) and value else "yes" if value else "no"


def _seed() -> None:
    """The same numbers whatever ran before; nothing is imported for it."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    if "mindspore" in sys.modules:
        sys.modules["mindspore"].set_seed(0)


def _names(tree: ast.AST) -> dict[str, object]:
    """What the code uses without importing it: nothing else is loaded, so that arithmetic needs no framework."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    found: dict[str, object] = {name: _load(path) for name, path in NAMES.items() if name in used}
    return found | {name: _load(f"mindport.claims.tools.{name}") for name in TOOLS if name in used}


def _load(path: str) -> object:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        parent, _, name = path.rpartition(".")
        if error.name != path or not parent:
            raise
        return getattr(importlib.import_module(parent), name)
