"""A MindSpore cell, watched: what each cell is given and makes, the loss, the gradients → a trace.

    record(net, ids, "traces/mindspore")               one call: seeds, dropout off, forward, backward

    with recording(net, "traces/mindspore") as seen:   or round code of your own
        loss = net(ids).mean()
        seen.add("loss", loss)

In PyNative mode only: a compiled graph runs none of the hooks. A construct that `@jit` decorates is such a graph, and
the cells inside are listed as not called. MindSpore keeps the seed that is set here, and tells nobody what
it was before. A dropout that a construct calls by itself with `training=True` cannot be switched off here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from mindport.errors import BackendError
from mindport.parity.trace import BFLOAT16, write_trace
from mindport.tracing import recorder
from mindport.tracing.recorder import MOST, ROOT, Recorder, leaves

Loss = Callable[[Any], Tensor]
NO_GRADIENT = "requires grad is false"  # what a value that no parameter reaches answers, and cannot be asked
FLOATS = (ms.float16, ms.bfloat16, ms.float32, ms.float64)


def record(
    module: nn.Cell, inputs: Any, out: Path | str, *, seed: int = 0, backward: bool = True, dropout: bool = False,
    match: str | None = None, loss: Loss | None = None, most: int = MOST, overwrite: bool = False,
) -> Path:  # fmt: skip
    """Run a cell once in PyNative mode and write what it computed.

    Args:
        module: any cell; its weights and modes stay as they are.
        inputs: a tensor or array; a tuple or list of several; a mapping for arguments by name.
        out: the trace to write, a directory.
        seed: of all random numbers of the run.
        backward: take the gradients of the loss, by parameters and by outputs.
        dropout: run in train mode, with dropout as the seed draws it (batch norms then take, and keep, the statistics
            of the batch).
        match: a regular expression; of the cells inside, only those whose path contains it.
        loss: output → scalar; by default the scalar that the cell makes, else the mean of √(1+x²) over each output,
            which is the same in every layout.
        most: bytes that the record may hold in memory.
        overwrite: replace a trace that is there.

    Raises:
        BackendError: MindSpore is in Graph mode, where hooks do not fire.
        UsageError: no cell matches, or the record would grow too large.
        FileError: `out` cannot be written.
    """
    seen = _recorder(module, match, most)
    args, kwargs = recorder.arguments(inputs)
    args, kwargs = tuple(map(_tensor, args)), {name: _tensor(value) for name, value in kwargs.items()}
    with settled(module, seed=seed, dropout=dropout):
        how = _observe(module, lambda: module(*args, **kwargs), loss, backward, seen)
    trace = seen.finish(**_settings(), seed=seed, dropout=dropout, loss=how)
    return write_trace(trace, Path(out), overwrite=overwrite)


@contextmanager
def recording(
    module: nn.Cell, out: Path | str, *, seed: int = 0, dropout: bool = False, match: str | None = None,
    most: int = MOST, overwrite: bool = False,
) -> Iterator[Recorder]:  # fmt: skip
    """Watch a cell for the time of the block; the trace is written at its end.

    Args:
        module, out, seed, dropout, match, most, overwrite: as for `record`.

    Yields:
        The recorder; `add(name, tensor)` keeps one thing more (`grad/fc.weight`: MindSpore keeps no gradients).
    """
    seen = _recorder(module, match, most)
    with settled(module, seed=seed, dropout=dropout), watch(module, seen):
        yield seen
    trace = seen.finish(**_settings(), seed=seed, dropout=dropout, loss=recorder.CALLERS)
    write_trace(trace, Path(out), overwrite=overwrite)


@contextmanager
def settled(module: nn.Cell, *, seed: int, dropout: bool) -> Iterator[None]:
    """Seeds set and dropout on or off, for the time of the block."""
    if ms.get_context("mode") == ms.GRAPH_MODE:
        raise BackendError("in Graph mode hooks do not fire, so that nothing can be recorded", got="GRAPH_MODE",
                           do="ms.set_context(mode=ms.PYNATIVE_MODE) before this")  # fmt: skip
    modes = [(cell, cell.training) for _, cell in module.cells_and_names()]
    with recorder.seeded(seed):
        ms.set_seed(seed)
        module.set_train(dropout)
        try:
            yield
        finally:
            for cell, mode in modes:  # from the outside in: it sets those inside, too
                cell.set_train(mode)


def watch(module: nn.Cell, seen: Recorder) -> AbstractContextManager[None]:
    """Hooks on the cell and those inside, for the time of the block."""
    cells = _cells(module)
    paths = _outside_graphs(cells, seen.wanted(list(cells)))
    return seen.watching({path: cells[path] for path in paths}, partial(_answered, seen))


def on_gradient(tensor: Tensor, see: Callable[[Tensor], None]) -> list[Any]:
    """Look at the gradient of a tensor when it arrives.

    Returns:
        The handle that takes the hook away again; nothing where no gradient arrives. Those of parameters come with
        the answer.
    """

    def hook(gradient: Tensor) -> Tensor:
        see(gradient)
        return gradient  # it is what goes on

    if isinstance(tensor, ms.Parameter) or not tensor.is_floating_point():
        return []
    try:
        return [tensor.register_hook(hook)]
    except RuntimeError as error:
        if NO_GRADIENT in str(error):
            return []
        raise


def seed_all(seed: int) -> None:
    """Seed what a user's function draws while it builds the cell."""
    ms.set_seed(seed)


def is_module(value: Any) -> bool:
    return isinstance(value, nn.Cell)


def _answered(seen: Recorder, name: str, tensor: Tensor) -> None:
    if tensor.dtype in FLOATS:
        on_gradient(tensor, seen.expect(name))


def _observe(module: nn.Cell, run: Callable[[], Any], loss: Loss | None, backward: bool, seen: Recorder) -> str:
    """Forward, loss and backward; returns what the loss is."""
    said: list[str] = []
    weights = {name: weight for name, weight in module.parameters_and_names() if weight.requires_grad}

    def forward() -> Tensor:
        scalar, how = _loss(run(), loss)
        said.append(how)
        return Tensor(0.0) if scalar is None else scalar

    with watch(module, seen):
        if backward and weights:
            scalar, gradients = ms.value_and_grad(forward, None, weights=list(weights.values()))()
        else:
            scalar, gradients = forward(), ()
    if said[0] != recorder.NO_LOSS:
        seen.add("loss", scalar)
        for name, gradient in zip(weights, gradients, strict=False):
            seen.add(f"grad/{name}", gradient)
    if backward and (not weights or said[0] == recorder.NO_LOSS):
        seen.skipped["grad/"] = recorder.NO_GRADIENTS
    return said[0]


def _loss(output: Any, loss: Loss | None) -> tuple[Tensor | None, str]:
    """A scalar, and what it is."""
    if loss is not None:
        return recorder.scalar_of(loss, output, Tensor), recorder.GIVEN_LOSS
    found = [leaf for _, leaf in leaves(output) if isinstance(leaf, Tensor) and leaf.dtype in FLOATS]
    if own := [leaf for leaf in found if leaf.ndim == 0]:
        return own[0], recorder.OWN_LOSS
    if not found:
        return None, recorder.NO_LOSS
    wide = (x if x.dtype in FLOATS[2:] else x.astype(ms.float32) for x in found)
    return sum(ops.sqrt(1 + x * x).mean() for x in wide), recorder.MADE_LOSS


def _settings() -> dict[str, Any]:
    unknown = "not known: MindSpore lacks float64 operators"
    return {"framework": "mindspore", "device": ms.get_context("device_target"), "exact": unknown}


def _cells(module: nn.Cell) -> dict[str, nn.Cell]:
    """All but the containers, which nobody calls."""
    cells = ((path or ROOT, cell) for path, cell in module.cells_and_names())
    return {path: cell for path, cell in cells if not isinstance(cell, (nn.CellList, nn.CellDict)) or path == ROOT}


def _outside_graphs(cells: dict[str, nn.Cell], paths: list[str]) -> list[str]:
    """Without the cells inside one whose construct `@jit` compiles: it would take their hooks into its graph."""
    graphs = [path for path, cell in cells.items() if getattr(cell.construct, "__wrapped_by_jit__", False)]
    inside = tuple("" if path == ROOT else f"{path}." for path in graphs)
    return [path for path in paths if path in graphs or not path.startswith(inside)]


def _recorder(module: nn.Cell, match: str | None, most: int) -> Recorder:
    seen = Recorder(_array, match, most)
    seen.learn(_cells(module), dict(module.parameters_and_names()))
    return seen


def _array(value: Any) -> np.ndarray | str | None:
    if not isinstance(value, Tensor):
        return None
    array = value.asnumpy().copy()
    return array.view(np.uint16).view(BFLOAT16) if value.dtype == ms.bfloat16 else array


def _tensor(value: Any) -> Any:
    return Tensor(value.copy()) if isinstance(value, np.ndarray) else value
