"""What the names of a Python file mean, without running it: imports, aliases, and what hides them."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from dataclasses import dataclass, field

from mindport.coverage.table import BY_NAME, METHOD, frame

CONTAINERS = frozenset(name for kind in (str, bytes, list, dict, set) for name in dir(kind))
ELSEWHERE = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "pandas"}  # what they make is no tensor
PROPERTIES = ("T", "mT")
_MADE = "()"  # in a meaning: what a call returned
_MOVED = (
    (re.compile(r"^torch\.nn\.(modules\.\w+|parameter)\."), "torch.nn."),
    (re.compile(r"^torch\.(functional|_tensor)\."), "torch."),
    (re.compile(r"^torch\.optim\.(adam|adamw|sgd)\."), "torch.optim."),
    (re.compile(r"^torch\.nn\.NonDynamicallyQuantizableLinear$"), "torch.nn.Linear"),
)


@dataclass
class Names(ast.NodeVisitor):
    """Collects the torch names that a syntax tree uses, with the line of each.

    A method's object has no type before the code runs, so a call counts as a tensor's unless the object is known to
    be something else: `self`, a literal, a module, what the standard library or NumPy made. Annotations are left out.

    Attributes:
        package: the file's, for relative imports.
        found: (name in full, line).
        stars: modules of torch that are imported whole, with the line.
        has_torch: whether anything of torch is imported; if not, no method is a tensor's.
    """

    package: tuple[str, ...] = ()
    found: list[tuple[str, int]] = field(default_factory=list)
    stars: list[tuple[str, int]] = field(default_factory=list)
    has_torch: bool = False
    scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])

    # What binds a name: the meaning of it is a dotted name, or nothing.

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.split(".")[0]
            self.has_torch |= root == "torch"
            self._bind(alias.asname or root, alias.name if alias.asname else root)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self.package[: max(0, len(self.package) - node.level + 1)] if node.level else ()
        module = ".".join([*base, *([node.module] if node.module else [])])
        self.has_torch |= _is_torch(module)
        for alias in node.names:
            if alias.name != "*":
                self._bind(alias.asname or alias.name, f"{module}.{alias.name}")
            elif _is_torch(module):
                self.stars.append((module, node.lineno))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name, "")
        self._visit_all(node.decorator_list)
        self._function(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name, "")
        self._visit_all((*node.decorator_list, *node.bases, *node.keywords))
        self._scope({}, node.body)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            if not isinstance(target, ast.Name):
                self.visit(target)
            elif not (_is_none(node.value) and target.id in self.scopes[-1]):  # `except ImportError: F = None`
                self._bind(target.id, self._meaning(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit_Assign(ast.Assign([node.target], node.value))

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id, "")
        elif _is_name(meaning := self._look_up(node.id)):
            self._use(meaning, node)
        elif self.stars and not any(node.id in scope for scope in self.scopes) and not hasattr(builtins, node.id):
            stars = [f"{module}.{node.id}" for module, _ in self.stars]
            for name in [star for star in stars if star in BY_NAME or frame(star)][:1]:
                self._use(name, node)

    # What uses one.

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if _is_name(meaning := self._meaning(node)):
            self._use(meaning, node)
            return
        if node.attr in PROPERTIES and self._may_be_tensor(node.value):
            self._use(METHOD + node.attr, node)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        self._call(node, is_used=True)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._call(node.value, is_used=False)
        else:
            self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.MatMult):
            self._use(METHOD + "__matmul__", node)
        self.generic_visit(node)

    def _call(self, node: ast.Call, is_used: bool) -> None:
        function = node.func
        if isinstance(function, ast.Attribute) and self._is_method(node, function, is_used):
            self._use(METHOD + function.attr, function)
            self.visit(function.value)
        else:
            self.visit(function)
        self._visit_all((*node.args, *node.keywords))

    def _is_method(self, node: ast.Call, function: ast.Attribute, is_used: bool) -> bool:
        """Whether a call may be of a tensor's method; `seen.add(x)` and `line.split(",")` are not."""
        if function.attr.startswith("__"):
            return False
        if function.attr in CONTAINERS and not (is_used and _takes_numbers(node)):
            return False
        return self._may_be_tensor(function.value)

    def _may_be_tensor(self, value: ast.expr) -> bool:
        if isinstance(value, (ast.Constant, ast.JoinedStr, ast.List, ast.Dict, ast.Set)) or _is_own(value):
            return False
        meaning = self._meaning(value)
        return not meaning or (_MADE in meaning and not ELSEWHERE & set(re.split(r"\W+", meaning)))

    def _meaning(self, node: ast.expr) -> str:
        """Which name an expression is, or which call made it; empty when that cannot be told."""
        if isinstance(node, ast.Name):
            return self._look_up(node.id)
        if isinstance(node, ast.Attribute) and (base := self._meaning(node.value)):
            return f"{base}.{node.attr}"
        if isinstance(node, ast.Call) and (base := self._meaning(node.func)):
            return base + _MADE
        return ""

    def _function(self, arguments: ast.arguments, body: list[ast.stmt] | list[ast.expr]) -> None:
        self._visit_all((*arguments.defaults, *filter(None, arguments.kw_defaults)))
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        self._scope({argument.arg: "" for argument in every if argument is not None}, body)

    def _scope(self, names: dict[str, str], body: list[ast.stmt] | list[ast.expr]) -> None:
        self.scopes.append(names)
        self._visit_all(body)
        self.scopes.pop()

    def _visit_all(self, nodes: object) -> None:
        for node in nodes:  # type: ignore[attr-defined]
            self.visit(node)

    def _look_up(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), "")

    def _bind(self, name: str, meaning: str) -> None:
        self.scopes[-1][name] = meaning

    def _use(self, name: str, node: ast.expr) -> None:
        self.found.append((public(name), node.lineno))


def public(name: str) -> str:
    """Torch's public name of what is found elsewhere, too: `torch.nn.modules.linear.Linear` → `torch.nn.Linear`."""
    for pattern, short in _MOVED:
        name = pattern.sub(short, name)
    return name


def _is_torch(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


def _is_name(meaning: str) -> bool:
    """Whether it is a name inside torch, and neither torch itself nor what a call returned."""
    return meaning.startswith("torch.") and _MADE not in meaning


def _is_own(value: ast.expr) -> bool:
    """`self`, `cls` and `super()`: their methods are those of the class."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _takes_numbers(node: ast.Call) -> bool:
    """Whether a call has arguments none of which is text."""
    texts = [isinstance(a, ast.JoinedStr) or (isinstance(a, ast.Constant) and isinstance(a.value, (str, bytes)))
             for a in node.args]  # fmt: skip
    return bool(texts) and not any(texts)
