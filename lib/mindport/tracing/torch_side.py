"""A torch module, watched: what each submodule is given and makes, the loss, the gradients → a trace.

    record(model, ids, "traces/torch")                 one call: seeds, eval mode, forward, backward, float64 beside it

    with recording(model, "traces/torch") as seen:     or round code of your own
        loss = model(ids).mean()
        loss.backward()
        seen.add("loss", loss)

Eval mode is for every submodule, so that dropout is off and batch norms take their running statistics; afterwards each
one is in the mode that it was in, and the random numbers go on as if nothing had been. A dropout that a forward calls
with `training=True` by itself cannot be switched off here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mindport.errors import first_line
from mindport.parity.float64 import Float64
from mindport.parity.trace import BFLOAT16, write_trace
from mindport.tracing import recorder
from mindport.tracing.recorder import MOST, ROOT, Recorder, leaves

Call = tuple[tuple[Any, ...], dict[str, Any]]
Loss = Callable[[Any], torch.Tensor]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def record(
    module: torch.nn.Module, inputs: Any, out: Path | str, *, seed: int = 0, backward: bool = True,
    dropout: bool = False, exact: bool = True, match: str | None = None, loss: Loss | None = None, most: int = MOST,
    overwrite: bool = False,
) -> Path:  # fmt: skip
    """Run a module once and write what it computed.

    Args:
        module: any module; its weights, modes and gradients stay as they are.
        inputs: a tensor or array; a tuple or list of several; a mapping for arguments by name.
        out: the trace to write, a directory.
        seed: of all random numbers of the run.
        backward: take the gradients of the loss, by parameters and by outputs.
        dropout: run in train mode, with dropout as the seed draws it (batch norms then take, and keep, the statistics
            of the batch).
        exact: run a copy in float64 as well, which says what float32 costs; twice the time and three times the memory.
        match: a regular expression; of the submodules, only those whose path contains it.
        loss: output → scalar; by default the scalar that the module makes, else the mean of √(1+x²) over each output,
            which is the same in every layout.
        most: bytes that the record may hold in memory.
        overwrite: replace a trace that is there.

    Raises:
        UsageError: no module matches, or the record would grow too large.
        FileError: `out` cannot be written.
    """
    seen = _recorder(module, match, most)
    call = call_of(inputs)
    with settled(module, seed=seed, dropout=dropout):
        how = _observe(module, call, loss, backward, seen)
        said = _add_exact(module, call, loss, backward, seen) if exact and not dropout else "not asked for"
    trace = seen.finish(**_settings(module), seed=seed, dropout=dropout, loss=how, exact=said)
    return write_trace(trace, Path(out), overwrite=overwrite)


@contextmanager
def recording(
    module: torch.nn.Module, out: Path | str, *, seed: int = 0, dropout: bool = False, match: str | None = None,
    most: int = MOST, overwrite: bool = False,
) -> Iterator[Recorder]:  # fmt: skip
    """Watch a module for the time of the block; the trace is written at its end, gradients that are there included.

    Args:
        module, out, seed, dropout, match, most, overwrite: as for `record`.

    Yields:
        The recorder; `add(name, tensor)` keeps one thing more.
    """
    seen = _recorder(module, match, most)
    with settled(module, seed=seed, dropout=dropout):
        with watch(module, seen):
            yield seen
        for name, weight in module.named_parameters():
            if weight.grad is not None:
                seen.add(f"grad/{name}", weight.grad)
    trace = seen.finish(**_settings(module), seed=seed, dropout=dropout, loss=recorder.CALLERS, exact="not asked for")
    write_trace(trace, Path(out), overwrite=overwrite)


@contextmanager
def settled(module: torch.nn.Module, *, seed: int, dropout: bool) -> Iterator[None]:
    """Seeds set and dropout on or off, for the time of the block."""
    modes = {part: part.training for part in module.modules()}
    with recorder.seeded(seed), torch.random.fork_rng():
        torch.manual_seed(seed)
        module.train(dropout)
        try:
            yield
        finally:
            for part, mode in modes.items():
                part.training = mode


def watch(module: torch.nn.Module, seen: Recorder) -> AbstractContextManager[None]:
    """Hooks on the module and its submodules, for the time of the block."""
    modules = _modules(module)
    return seen.watching({path: modules[path] for path in seen.wanted(list(modules))}, partial(_answered, seen))


def seed_all(seed: int) -> None:
    """Seed what a user's function draws while it builds the module."""
    torch.manual_seed(seed)


def is_module(value: Any) -> bool:
    return isinstance(value, torch.nn.Module)


def _answered(seen: Recorder, name: str, tensor: torch.Tensor) -> None:
    if tensor.requires_grad:
        tensor.register_hook(seen.expect(name))


def _observe(module: torch.nn.Module, call: Call, loss: Loss | None, backward: bool, seen: Recorder) -> str:
    """Forward, loss and backward; hooks are gone before the backward, where checkpoints run their forward again."""
    args, kwargs = _nested(call, lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x)
    with torch.set_grad_enabled(backward):
        with watch(module, seen):
            output = module(*args, **kwargs)
        scalar, how = _loss(output, loss)
    if scalar is not None:
        seen.add("loss", scalar)
        if backward:
            _gradients(module, scalar, seen)
    return how


def _loss(output: Any, loss: Loss | None) -> tuple[torch.Tensor | None, str]:
    """A scalar, and what it is."""
    if loss is not None:
        return recorder.scalar_of(loss, output, torch.Tensor), recorder.GIVEN_LOSS
    found = [leaf for _, leaf in leaves(output) if isinstance(leaf, torch.Tensor) and leaf.dtype in FLOATS]
    if own := [leaf for leaf in found if leaf.ndim == 0]:
        return own[0], recorder.OWN_LOSS
    if not found:
        return None, recorder.NO_LOSS
    wide = (x.to_dense() if x.dtype in FLOATS[2:] else x.to_dense().float() for x in found)
    return sum((1 + x * x).sqrt().mean() for x in wide), recorder.MADE_LOSS


def _gradients(module: torch.nn.Module, scalar: torch.Tensor, seen: Recorder) -> None:
    weights = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    if not weights or not scalar.requires_grad:
        seen.skipped["grad/"] = recorder.NO_GRADIENTS
        return
    found = torch.autograd.grad(scalar, list(weights.values()), allow_unused=True)
    for name, gradient in zip(weights, found, strict=True):
        if gradient is None:
            seen.skipped[f"grad/{name}"] = "the loss does not depend on it"
        else:
            seen.add(f"grad/{name}", gradient)


def _add_exact(module: torch.nn.Module, call: Call, loss: Loss | None, backward: bool, seen: Recorder) -> str:
    """The same run of a copy in float64; returns whether there is one, or why not."""
    wide = Recorder(_array, seen.match, seen.most)
    try:
        twin = copy.deepcopy(module).double()
        with Float64():
            _observe(twin, _nested(call, _double), loss, backward, wide)
    except Exception as error:  # a user's code may insist on float32 in any way
        return f"not known: in float64 the module raised {type(error).__name__}: {first_line(error)}"
    for name, value in wide.trace.arrays.items():
        mine = seen.trace.arrays.get(name)
        if mine is not None and mine.dtype.name in ("float32", "float16", "bfloat16") and mine.shape == value.shape:
            seen.trace.add(name, mine, value)
    return "known: the whole module in float64"


def _settings(module: torch.nn.Module) -> dict[str, Any]:
    device = next((str(weight.device) for weight in module.parameters()), "cpu")
    return {"framework": "torch", "device": device}


def _modules(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """All but the containers, such as ModuleList, which nobody calls."""
    parts = ((path or ROOT, part) for path, part in module.named_modules())
    return {path: part for path, part in parts if type(part).forward is not torch.nn.Module.forward or path == ROOT}


def _recorder(module: torch.nn.Module, match: str | None, most: int) -> Recorder:
    """One that knows the module, its parameters and the buffers of floating point (a batch norm's statistics)."""
    seen = Recorder(_array, match, most)
    buffers = {name: x for name, x in module.named_buffers() if x.is_floating_point()}
    seen.learn(_modules(module), {**dict(module.named_parameters()), **buffers})
    return seen


def _array(value: Any) -> np.ndarray | str | None:
    if not isinstance(value, torch.Tensor):
        return None
    if value.layout != torch.strided or value.is_quantized or value.is_meta:
        return f"a tensor without plain numbers ({value.layout}, {value.device})"
    value = value.detach().cpu().clone(memory_format=torch.contiguous_format)
    try:
        return value.view(torch.int16).numpy().view(BFLOAT16) if value.dtype == torch.bfloat16 else value.numpy()
    except (TypeError, RuntimeError):  # float8 and the like, a subclass without storage
        return f"{recorder.OTHER_DTYPE}: {value.dtype}"


def call_of(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a user's function gave for inputs as (args, kwargs), with tensors in place of NumPy arrays."""
    return _nested(recorder.arguments(inputs), _tensor)


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _nested(value: Any, change: Callable[[Any], Any]) -> Any:
    """`change` at every leaf of nested tuples, lists and dicts."""
    if isinstance(value, dict):
        return {key: _nested(item, change) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_nested(item, change) for item in value)
    return change(value)
