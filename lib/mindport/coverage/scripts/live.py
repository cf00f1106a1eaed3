"""What a live module is made of and calls: `python -m mindport.coverage.scripts.live PLACE NAME ANSWER`.

A `TorchFunctionMode` sees each call of torch's public functions and methods under the name that the user wrote, which
is what the table knows; a dispatch mode would see ATen's parts of them. What a layer of torch calls inside belongs to
the layer, which has a row of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

from mindport.coverage.names import public
from mindport.coverage.table import BY_NAME
from mindport.processes import run_file
from mindport.tracing.torch_side import call_of

TORCH = f"{Path(torch.__file__).parent}/"
LAYERS = f"{TORCH}nn/modules/"
FRAMES = (f"{LAYERS}module.py", f"{LAYERS}container.py")
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


class Mistake(Exception):
    """What the target names cannot be looked at: (what, got)."""


class Recorder(TorchFunctionMode):
    """Notes the name and the place of each call that no layer of torch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.uses: list[tuple[str, str]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, place = _name(func), _place(sys._getframe(1))
        if name and place:
            self.uses.append((name, place))
        return func(*args, **(kwargs or {}))


def main(place: str, name: str, out: str) -> None:
    try:
        answer = look(place, name)
    except Mistake as mistake:
        answer = dict(zip(("usage", "got"), map(str, mistake.args), strict=True))
    except BaseException as error:  # SystemExit, too: the user's code may do what it likes
        answer = {"raised": f"{type(error).__name__}: {error}"[:400]}
    Path(out).write_text(json.dumps(answer), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # neither the user's threads nor exit handlers are waited for


def look(place: str, name: str) -> dict[str, Any]:
    module, inputs = _made(_found(place, name))
    uses = list(_layers(module))
    if inputs is None:
        return {"uses": uses, "called": False}
    args, kwargs = call_of(inputs)
    with Recorder() as recorder:
        module(*args, **kwargs)
    return {"uses": uses + recorder.uses, "called": True}


def _found(place: str, name: str) -> Any:
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise Mistake("there is no such file", place)
        module = run_file(Path(place))
    else:
        module = _from_package(place)
    if not hasattr(module, name):
        raise Mistake("the module has nothing of that name", name)
    return getattr(module, name)


def _from_package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name + ".").startswith(error.name + "."):
            raise Mistake("there is no such module", error.name) from None
        raise


def _made(thing: Any) -> tuple[nn.Module, Any]:
    """The module, and its inputs as they were given, None without any."""
    if isinstance(thing, nn.Module):
        return thing, None
    if not callable(thing):
        raise Mistake("it is neither a module nor a function that makes one", type(thing).__name__)
    try:
        made = thing()
    except TypeError as error:
        raise Mistake("it cannot be called without arguments", error) from None
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, nn.Module):
        raise Mistake("it makes no torch module", type(module).__name__)
    return module, inputs


def _layers(module: nn.Module, path: str = "") -> Iterator[tuple[str, str]]:
    """Torch's own layers with their places in the module; what such a layer is made of is not looked into."""
    kind = type(module)
    is_torch = kind.__module__.startswith("torch.nn.")
    if is_torch:
        yield public(f"{kind.__module__}.{kind.__qualname__}"), path or "the module itself"
    if not is_torch or isinstance(module, CONTAINERS):
        for name, child in module.named_children():
            yield from _layers(child, f"{path}.{name}".lstrip("."))


def _name(func: Any) -> str:
    """Torch's name of a function that was called; of attributes only those that the table has."""
    name = resolve_name(func) or f"{getattr(func, '__module__', 'torch')}.{getattr(func, '__name__', func)}"
    attribute = name.removesuffix(".__get__")
    return public(name) if attribute == name else attribute * (attribute in BY_NAME)


def _place(frame: FrameType | None) -> str:
    """The line outside torch that called; nothing when a layer of torch stands between."""
    while frame is not None and (file := frame.f_code.co_filename).startswith(TORCH):
        if file.startswith(LAYERS) and file not in FRAMES:
            return ""
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame is not None else ""


if __name__ == "__main__":
    main(*sys.argv[1:])
