"""What a fault is, and how it is planted into a converted model or into the code that runs it.

A fault of a converter leaves a sound directory: names, shapes and digests are right, and the model is wrong. A fault
of the code is there for the time of a block, in PyNative mode, for models that are built within it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config.model_config import ModelConfig
from mindport.config.schema import shapes
from mindport.debug.diagnosis.cause import Evidence
from mindport.files import atomic_directory, sha256
from mindport.parity.compare import compare_forward
from mindport.parity.launch import run_reference
from mindport.parity.rows import Row
from mindport.parity.trace import Trace, read_trace
from mindport.weights import load
from mindport.weights.manifest import read_manifest, write_manifest

Arrays = dict[str, np.ndarray]
STEPS = 4  # of a training in the lab


@dataclass(frozen=True)
class Ground:
    """A model that faults are planted into.

    Attributes:
        name: of the model.
        source: its Hugging Face directory.
        converted: its conversion, which stays as it is.
        trace: the reference's trace of it.
    """

    name: str
    source: Path
    converted: Path
    trace: Path

    @cached_property
    def reference(self) -> Trace:
        return read_trace(self.trace)

    @cached_property
    def config(self) -> ModelConfig:
        return read_manifest(self.converted).model

    @cached_property
    def training(self) -> Trace:
        """The reference's training, which is run when it is first asked for."""
        return read_trace(run_reference(self.source, self.trace.parent / "training", steps=STEPS, progress=False,
                                        padded_vocab=self.config.padded_vocab))  # fmt: skip

    def compare(self, converted: Path) -> Evidence:
        """A copy of the conversion beside the reference, as the code is now."""
        reference = self.reference
        ours, rows = compared(converted, reference)
        return Evidence(reference=reference, ours=ours, rows=rows, directory=converted)

    def trained(self) -> Evidence:
        """The training of the model without a fault, beside the reference's."""
        from mindport.parity.ours_training import observe_training

        ours = observe_training(self.converted, self.training, only="PyNative")
        return Evidence(training_reference=self.training, training_ours=ours)


@dataclass(frozen=True)
class Fault:
    """One mistake.

    Attributes:
        name: what `plant` calls it.
        what: what was done wrong.
        first: the first wrong value, in `mindport.parity` terms, or what it is in a model.
        causes: the names of the causes, any of which tells it.
        applies: whether a model can have it.
        weights: changes the arrays in place.
        config: the fields of the wrong configuration that are not the right one's.
        code: whether it is one of `patches`, by its name.
        kind: the part of the lab that it belongs to.
    """

    name: str
    what: str
    first: str | Callable[[ModelConfig], str]
    causes: tuple[str, ...]
    applies: Callable[[ModelConfig], bool] = lambda config: True
    weights: Callable[[Arrays, ModelConfig], None] | None = None
    config: Callable[[ModelConfig], dict[str, Any]] | None = None
    code: bool = False
    kind: str = "forward"

    def at(self, config: ModelConfig) -> str:
        """The first wrong value in a model of this configuration."""
        return self.first if isinstance(self.first, str) else self.first(config)

    def evidence(self, ground: Ground, aside: Path) -> Evidence:
        """What a comparison sees of the fault.

        Args:
            ground: the model.
            aside: a directory for a copy of it.
        """
        copy = self.copy(ground.converted, aside / self.name) if self.weights or self.config else ground.converted
        with self.block():
            return ground.compare(copy)

    def block(self) -> contextlib.AbstractContextManager[None]:
        """A block in which the code is as wrong as the fault makes it."""
        if not self.code:
            return contextlib.nullcontext()
        from mindport.debug.faults.patches import PATCHES

        return PATCHES[self.name]()

    def copy(self, directory: Path, to: Path, overwrite: bool = False) -> Path:
        """A copy of a MindPort directory with the fault in it; its manifest has the digests of the wrong weights."""
        manifest = read_manifest(directory)
        arrays = {name: np.array(array) for name, array in load(directory).items()}
        if self.weights:
            self.weights(arrays, manifest.model)
        model = dataclasses.replace(manifest.model, **(self.config(manifest.model) if self.config else {}))
        arrays = {name: arrays[name] for name in shapes(model)}  # what the configuration does not name is not written
        with atomic_directory(to, overwrite=overwrite) as aside:
            _write(directory, aside, arrays, model)
        return to


def compared(converted: Path, reference: Trace) -> tuple[Trace, tuple[Row, ...]]:
    """Our trace in PyNative mode, and every value of it beside the reference's."""
    from mindport.parity.ours import observe

    ours = observe(converted, reference, forward_only=True)
    return ours, compare_forward(reference, ours)


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Another attribute for the time of the block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _write(directory: Path, aside: Path, arrays: Arrays, model: ModelConfig) -> None:
    """Everything but the weights as it is; the weights in one file; a manifest that believes both."""
    from safetensors.numpy import save_file

    manifest = read_manifest(directory)
    for file in directory.iterdir():
        if file.is_file() and file.name not in manifest.files and not file.name.endswith(".index.json"):
            shutil.copyfile(file, aside / file.name)
    target = aside / "model.safetensors"
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, target)
    files = {target.name: {"sha256": sha256(target), "bytes": target.stat().st_size}}
    write_manifest(aside, dataclasses.replace(manifest, model=model, files=files))
