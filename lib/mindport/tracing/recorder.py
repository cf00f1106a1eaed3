"""What hooks saw, under names: each value is copied at once, so that what is changed in place later stays as it was.

in/<path>      what a module was given            <path> is the module's own, `.` the module that was called
out/<path>     what it made                       <path>#2 its second call
back/<path>    the gradient of the loss by that   <path>[1], <path>[mask]: one of several tensors
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mindport import machine
from mindport.errors import BackendError, UsageError
from mindport.parity.trace import Trace, digest
from mindport.weights import dtypes

ROOT = "."  # no framework lets a module have this name
MOST = 4 << 30  # bytes that a record may hold in memory
STORED = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
OTHER_DTYPE = "the format does not hold this dtype"
OWN_LOSS, GIVEN_LOSS = "the scalar that the module makes", "what a function makes of the output"
CALLERS = "of the caller"
MADE_LOSS = "the mean of √(1+x²) over each output"
NO_LOSS = "none: the module makes nothing of floating point"
NO_GRADIENTS = "the loss depends on no parameter that takes a gradient"
LOST = "no gradient came: the loss does not depend on it, or the value was changed in place"
UNSEEN = "the module takes no hook on its output (in MindSpore: it has a bprop of its own)"

Array = Callable[[Any], "np.ndarray | str | None"]


@dataclass
class Recorder:
    """The record of one run.

    Attributes:
        array: a framework's value → a copy as NumPy; a text that says why there is none; None when it is no tensor.
        match: a regular expression that the paths of the recorded modules contain; None records all.
        most: bytes that the record may hold.
        trace: what was kept.
        order, backward: names of arrays in the order in which they were made.
        skipped: name → why it was not kept.
        calls: how often each module was called.
        classes, parameters: what is known of the modules and their parameters.
    """

    array: Array
    match: str | None = None
    most: int = MOST
    trace: Trace = field(default_factory=lambda: Trace({}))
    order: list[str] = field(default_factory=list)
    backward: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    classes: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    _open: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _expected: list[str] = field(default_factory=list)
    _bytes: int = 0

    def learn(self, modules: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
        """Before the run: the class at each path that can be called, and the figures of parameters and the like."""
        self.classes = {path: f"{type(x).__module__}.{type(x).__qualname__}" for path, x in modules.items()}
        for name, tensor in tensors.items():
            array = self.array(tensor)
            if isinstance(array, np.ndarray) and array.dtype.name in STORED:
                self.parameters[name] = _figures(array)
            else:
                self.skipped[f"parameter {name}"] = _why_not(array)

    def wanted(self, paths: list[str]) -> list[str]:
        """The modules to look at: those that match, and the whole.

        Raises:
            UsageError: the pattern is none, or no path contains it.
        """
        if self.match is None:
            return paths
        try:
            found = [path for path in paths if path != ROOT and re.search(self.match, path)]
        except re.error as error:
            raise UsageError("this is no regular expression", where="match", got=self.match, expected=error) from None
        if not found:
            raise UsageError("no module has such a path", where="match", got=self.match, expected=paths[1:9])
        return [ROOT, *found]

    def begin(self, path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A module is called."""
        self.calls[path] += 1
        name = path if self.calls[path] == 1 else f"{path}#{self.calls[path]}"
        self._open[path].append(name)
        given = {**{str(place): value for place, value in enumerate(args)}, **kwargs}
        self._keep(f"in/{name}", given, self.order)

    def end(self, path: str, output: Any) -> list[tuple[str, Any]]:
        """It has answered; returns each tensor of the answer with the name of its gradient."""
        name = self._open[path].pop()
        return [(f"back/{name}{part}", value) for part, value in self._keep(f"out/{name}", output, self.order)]

    @contextmanager
    def watching(self, modules: Mapping[str, Any], answered: Callable[[str, Any], None]) -> Iterator[None]:
        """Hooks on modules for the time of the block; both frameworks take them alike.

        Args:
            modules: by path.
            answered: is given each tensor that a module makes, after the name of its gradient.
        """

        def before(path: str, module: Any, args: Any, kwargs: Any) -> None:
            self.begin(path, args, kwargs)

        def after(path: str, module: Any, args: Any, kwargs: Any, output: Any) -> None:
            for name, tensor in self.end(path, output):
                answered(name, tensor)

        handles = []
        for path, module in modules.items():
            handles.append(module.register_forward_pre_hook(partial(before, path), with_kwargs=True))
            handles.append(module.register_forward_hook(partial(after, path), with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def expect(self, name: str) -> Callable[[Any], None]:
        """What keeps the gradient of that name when it arrives."""
        self._expected.append(name)
        return lambda value: self._store(name, self.array(value), self.backward)

    def add(self, name: str, value: Any) -> None:
        """Keep one more tensor, under a name of the caller's (`loss`, `grad/fc.weight`)."""
        self._store(name, self.array(value), None)

    def _keep(self, name: str, value: Any, order: list[str]) -> list[tuple[str, Any]]:
        """Every tensor in a nest of tuples, lists and mappings; one alone needs no part in its name."""
        found = [(part, leaf, self.array(leaf)) for part, leaf in leaves(value) if leaf is not None]
        tensors = [(part, leaf, array) for part, leaf, array in found if array is not None]
        others = [(part, leaf) for part, leaf, array in found if array is None]
        self.skipped |= {f"{name}{part}": f"{type(leaf).__name__}, not a tensor" for part, leaf in others}
        if len(tensors) == 1:
            tensors = [("", *tensors[0][1:])]
        for part, _, array in tensors:
            self._store(f"{name}{part}", array, order)
        return [(part, leaf) for part, leaf, _ in tensors]

    def _store(self, name: str, array: np.ndarray | str | None, order: list[str] | None) -> None:
        if not isinstance(array, np.ndarray) or array.dtype.name not in STORED or name in self.trace:
            self.skipped[name] = _why_not(array)
            return
        self._bytes += array.nbytes
        if self._bytes > self.most:
            raise UsageError("the record would grow too large for the memory that it may take", where=name,
                             got=f"more than {self.most:,} bytes",
                             do="keep some modules only (match=…, --match), or allow more (most=…)")  # fmt: skip
        self.trace.add(name, array)
        if order is not None:
            order.append(name)

    def finish(self, **about: Any) -> Trace:
        """The trace, with all that the manifest says of the run.

        Raises:
            BackendError: the module was never called.
        """
        if not self.calls[ROOT]:
            raise BackendError("nothing was recorded: the module was not called, or not through its hooks",
                               do="call the module itself, not its forward or construct")  # fmt: skip
        self.skipped |= {f"out/{name}": UNSEEN for names in self._open.values() for name in names}
        if self.backward:
            self.skipped |= {name: LOST for name in self._expected if name not in self.trace}
        shapes = {name: [known["shape"], known["dtype"]] for name, known in self.parameters.items()}
        self.trace.about = {
            "made_by": f"{self.classes[ROOT]}, recorded by mindport.tracing", "versions": machine.versions(), **about,
            "config": digest({"classes": self.classes, "parameters": shapes}), "classes": self.classes,
            "parameters": self.parameters, "order": self.order, "backward": self.backward, "skipped": self.skipped,
            "not_called": [path for path in self.wanted(list(self.classes)) if not self.calls[path]],
        }  # fmt: skip
        return self.trace


def leaves(value: Any, part: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nest, with its place: `[0]`, `[1][mask]`."""
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (tuple, list)):
        items = zip(getattr(value, "_fields", range(len(value))), value, strict=True)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
    else:
        yield part, value
        return
    for key, item in items:
        yield from leaves(item, f"{part}[{key}]")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Python's and NumPy's random numbers from `seed`; afterwards they go on as if nothing had been.

    Raises:
        UsageError: NumPy takes no such seed.
    """
    if not 0 <= seed < 1 << 32:
        raise UsageError("this is no seed", where="seed", got=seed, expected="0 to 4294967295")
    before = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a user calls the inputs → positional and named: a mapping is named, a tuple or list is several."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def scalar_of(loss: Callable[[Any], Any], output: Any, kind: Any) -> Any:
    """What the user's loss makes of an output.

    Raises:
        UsageError: it is no scalar of the framework: its gradients would be missing, or an error far from here.
    """
    made: Any = loss(output)
    if not isinstance(made, kind) or made.ndim:
        got = f"a tensor of shape {tuple(made.shape)}" if isinstance(made, kind) else type(made).__name__
        raise UsageError("the loss function makes no scalar tensor", where="loss", got=got,
                         expected="output → a tensor without dimensions")  # fmt: skip
    return made


def _figures(array: np.ndarray) -> dict[str, Any]:
    """Its digest, and what a transpose does not change."""
    wide = array.astype(np.float64)
    figures = (
        {"mean": wide.mean(), "std": wide.std(), "smallest": wide.min(), "largest": wide.max()} if wide.size else {}
    )
    known = {key: float(value) if np.isfinite(value) else str(value) for key, value in figures.items()}
    return {"shape": list(array.shape), "dtype": array.dtype.name, "digest": dtypes.digest(array), **known}


def _why_not(array: np.ndarray | str | None) -> str:
    if isinstance(array, np.ndarray):
        known = array.dtype.name in STORED
        return "a second value of this name" if known else f"{OTHER_DTYPE}: {array.dtype.name}"
    return array or "not a tensor"
