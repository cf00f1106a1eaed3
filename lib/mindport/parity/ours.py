"""Our model, looked at like the reference: the same taps, on the same tokens and on the reference's own values.

`whole` runs the model once with hooks, `single` feeds every cell what the *reference's* module was given, so that a
fault of one cell does not reach the next. Both in PyNative mode, where hooks can look inside; Graph mode answers
with logits, the continuation and gradients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from mindport.config import dialect_for, from_dict
from mindport.errors import BackendError, first_line
from mindport.model import load_model
from mindport.parity import metrics, rotation
from mindport.parity.inputs import cotangent, greedy_lengths, is_dynamic
from mindport.parity.taps import LOGITS, Tap, taps
from mindport.parity.trace import Trace

Say = Callable[[str], Any]
GRAPH_LOGITS = "graph/logits"


class Sent(nn.Cell):
    """output · cotangent of one layer: a scalar whose gradients are those of the layer."""

    def __init__(self, block: nn.Cell, rest: tuple[Any, ...], cotangent: np.ndarray) -> None:
        super().__init__(auto_prefix=False)  # the layer's parameters keep their names
        self.block, self.rest, self.cotangent = block, rest, Tensor(cotangent)

    def construct(self, x: Tensor) -> Tensor:
        return (self.block(x, *self.rest) * self.cotangent).sum()


def observe(directory: Path, reference: Trace, *, forward_only: bool = False, say: Say = lambda phase: None) -> Trace:
    """Run the converted model of `directory` on the reference's input and values.

    Args:
        directory: a MindPort directory.
        reference: the trace to be held against; its layers are kept, its layer's gradients are taken.
        forward_only: leave at `out/` and `local/`, in PyNative mode: enough to name a wrong module.
        say: is told each phase as it begins.

    Returns:
        A trace with `out/`, `local/`, `grad/`, `graph/` arrays and the continuation; `seconds` by phase in `about`.
    """
    about, seconds = reference.about, {}
    watched = taps(from_dict(about["model"]), dialect_for(about["model"]["model_type"]))
    trace = Trace(
        {
            "made_by": "mindport.model.GPT, float32",
            "device": ms.get_context("device_target"),
            "versions": {"mindspore": ms.__version__},
            "seconds": seconds,
        }
    )
    with modes() as switch, clock(seconds, say) as phase:
        phase("load")
        switch(ms.PYNATIVE_MODE)
        model = load_model(directory, layers=about["model"]["num_hidden_layers"]).set_train(False)
        _rotate(model, reference, trace)
        phase("PyNative, the whole model")
        calls = _whole(model, watched, reference["ids"], trace)
        phase("PyNative, module by module")
        _single(model, watched, calls, reference, trace)
        if forward_only:
            return trace
        phase("PyNative, gradients")
        block = f"blocks.{about['layer']}"
        _gradients(model, block, calls[block], reference, trace, "grad")
        phase("Graph, compile")
        switch(ms.GRAPH_MODE)
        ids = Tensor(reference["ids"], ms.int32)
        model(ids).asnumpy()
        phase("Graph, logits")
        trace.add(GRAPH_LOGITS, model(ids).asnumpy())
        phase("Graph, gradients")
        _gradients(model, block, calls[block], reference, trace, "graph/grad")
        phase("greedy continuation")
        switch(ms.PYNATIVE_MODE if is_dynamic(model.config) else ms.GRAPH_MODE)
        trace.add("greedy", _greedy(model, reference["ids"]))
    trace.about["loss"] = metrics.next_token_loss(trace[f"out/{LOGITS}"], reference["ids"])
    return trace


def answers(directory: Path, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits (B, T, V) of the converted model on ids (B, T), and the tokens with which it goes on after the start of
    each row, as a trace of the reference has both."""
    with modes() as switch:
        switch(ms.PYNATIVE_MODE)
        model = load_model(directory).set_train(False)
        return model(Tensor(ids, ms.int32)).asnumpy(), _greedy(model, ids)


def _whole(model: nn.Cell, watched: Mapping[str, Tap], ids: np.ndarray, trace: Trace) -> dict[str, tuple[Any, ...]]:
    """One run with hooks; keeps `out/` and returns what each cell was called with."""
    with _watch(model, watched) as (values, calls):
        model(Tensor(ids, ms.int32))
    for path, value in values.items():
        trace.add(f"out/{path}", value.asnumpy())
    trace.about["order"] = list(values)
    return calls


def _rotate(model: nn.Cell, reference: Trace, trace: Trace) -> None:
    """cos and sin of one step in sequences of the lengths that the reference was asked; keeps `rope/`."""
    for name in [name for name in reference.arrays if name.startswith(rotation.PREFIX)]:
        length = int(name.removeprefix(rotation.PREFIX))
        angles = model.rotary(Tensor(rotation.positions(length), ms.int32), length)
        trace.add(name, np.stack([x.asnumpy()[0, 0] for x in angles]))


def _single(
    model: nn.Cell, watched: Mapping[str, Tap], calls: Mapping[str, tuple[Any, ...]], reference: Trace, trace: Trace
) -> None:
    """Each cell by itself on the reference's input; keeps `local/`."""
    cells = dict(model.cells_and_names())
    for name, args in calls.items():
        own = {path: tap for path, tap in watched.items() if tap.cell == name}
        given = next(path for path, tap in own.items() if tap.seen_at is None)
        with _watch(model, own) as (values, _):
            cells[name](_tensor(reference[f"in/{given}"]), *args[1:])
        for path, value in values.items():
            trace.add(f"local/{path}", value.asnumpy())


def _gradients(model: nn.Cell, block: str, args: tuple[Any, ...], reference: Trace, trace: Trace, under: str) -> None:
    """d(output · cotangent) / d(input and every parameter) of one layer, in the mode that is set."""
    cell = dict(model.cells_and_names())[block]
    x = _tensor(reference[f"in/{block}"])
    weights = cell.trainable_params()
    of_input, of_weights = ms.grad(Sent(cell, args[1:], cotangent(x.shape)), grad_position=0, weights=weights)(x)
    trace.add(f"{under}/input", of_input.asnumpy())
    for weight, gradient in zip(weights, of_weights, strict=True):
        trace.add(f"{under}/{weight.name}", gradient.asnumpy())


def _greedy(model: nn.Cell, ids: np.ndarray) -> np.ndarray:
    """(2, n) the tokens that go on after the start of each row.

    The rows keep one length, so that one compiled graph serves every step: a causal model does not see what follows.
    Dynamic RoPE depends on the length, so there the row grows.
    """
    prompt, new = greedy_lengths(model.config, ids.shape[1])
    row = ids.copy()
    for end in range(prompt, prompt + new):
        fed = row[:, :end] if is_dynamic(model.config) else row
        row[:, end] = model(Tensor(fed, ms.int32)).asnumpy()[:, end - 1].argmax(-1)
    return row[:, prompt : prompt + new]


@contextmanager
def _watch(
    model: nn.Cell, watched: Mapping[str, Tap]
) -> Iterator[tuple[dict[str, Tensor], dict[str, tuple[Any, ...]]]]:
    """Hooks on the cells of the taps for the time of the block: values by path, arguments by cell."""
    cells, handles = dict(model.cells_and_names()), []
    values: dict[str, Tensor] = {}
    calls: dict[str, tuple[Any, ...]] = {}

    def after(tap: Tap) -> Any:
        def keep(cell: nn.Cell, args: tuple[Any, ...], output: Tensor) -> None:
            values[tap.path], calls[tap.cell] = output, args

        return keep

    def before(tap: Tap) -> Any:
        def keep(cell: nn.Cell, args: tuple[Any, ...]) -> None:
            values[tap.path] = args[0]

        return keep

    for tap in watched.values():
        if not {tap.cell, tap.seen_at[0] if tap.seen_at else tap.cell} <= cells.keys():
            continue  # our configuration has no such cell; the comparison says that it was never run
        if tap.seen_at:
            handles.append(cells[tap.seen_at[0]].register_forward_pre_hook(before(tap)))
        else:
            handles.append(cells[tap.cell].register_forward_hook(after(tap)))
    try:
        yield values, calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def modes() -> Iterator[Callable[[int], None]]:
    """A switch of the execution mode; afterwards the mode is what it was."""
    before = ms.get_context("mode")
    try:
        yield lambda mode: ms.set_context(mode=mode)
    except RuntimeError as error:
        raise BackendError("MindSpore refused", got=first_line(error), do="run mindport doctor") from error
    finally:
        ms.set_context(mode=before)


@contextmanager
def clock(seconds: dict[str, float], say: Say) -> Iterator[Say]:
    """A call names the phase that begins; `seconds` gets how long each took."""
    began: list[tuple[str, float]] = []

    def stop() -> None:
        if began:
            name, start = began.pop()
            seconds[name] = round(time.perf_counter() - start, 2)

    def phase(name: str) -> None:
        stop()
        say(name)
        began.append((name, time.perf_counter()))

    yield phase
    stop()


def _tensor(value: np.ndarray) -> Tensor:
    """As the model takes it: ids are int32."""
    return Tensor(value, ms.int32) if value.dtype.kind == "i" else Tensor(value)
