"""Where the reference's traces come from: a process that runs transformers now, or one that ran elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindport.config.locate import is_reachable
from mindport.errors import FileError, UsageError
from mindport.parity.launch import run_reference
from mindport.parity.trace import MADE_BY, TRAINED_BY, TRAINING, Trace, read_trace


@dataclass(frozen=True)
class Origin:
    """The reference of a comparison.

    Attributes:
        source: its Hugging Face directory.
        saved: a trace that is there already; None makes one.
        layers: the first so many layers; None takes all, or those of the saved trace.
        allow: unknown keys of config.json to let pass.
        padded_vocab: rows of the embedding, where it is padded.
        progress: pass on what the process says.
    """

    source: Path
    saved: Path | None
    layers: int | None
    allow: Sequence[str]
    padded_vocab: int | None
    progress: bool

    def forward(self, aside: Path) -> Trace:
        """The trace of one pass; made in the folder `aside`."""
        return self._trace(aside / "trace", self.saved, MADE_BY)

    def training(self, aside: Path, steps: int, forward: Trace) -> Trace:
        """The trace of a training of so many steps, of the same layers as the one of a pass.

        Raises:
            FileError: the saved trace has no training beside it.
            UsageError: it has another number of steps or of layers.
        """
        saved = self.saved and self.saved / TRAINING
        trace = self._trace(aside / TRAINING, saved, TRAINED_BY, steps)
        if (taken := len(trace["loss"])) != steps:  # the schedule depends on it, so the first of more will not do
            raise UsageError("the saved training has another number of steps", where=saved, got=steps, expected=taken,
                             do=f"ask for {taken}, or make it again: {TRAINED_BY}")  # fmt: skip
        if trace.about["model"] != forward.about["model"]:
            raise UsageError("the saved training is of another model than the pass beside it", where=saved,
                             do=f"make both with the same --layers: {TRAINED_BY}")  # fmt: skip
        return trace

    def _trace(self, aside: Path, saved: Path | None, made_by: str, steps: int = 0) -> Trace:
        if saved is None:
            if not is_reachable(self.source):
                raise FileError("the reference's directory is gone", where=self.source,
                                do="pass a saved trace with --trace")  # fmt: skip
            return read_trace(run_reference(
                self.source, aside, layers=self.layers, progress=self.progress, allow=self.allow,
                padded_vocab=self.padded_vocab, steps=steps,
            ))  # fmt: skip
        if not saved.is_dir():
            raise FileError("there is no such trace", where=saved, do=f"make it where torch is installed: {made_by}")
        trace = read_trace(saved)
        if "model" not in trace.about:
            raise FileError("this is a trace of a module, not of a Hugging Face directory", where=saved,
                            got=trace.about.get("made_by"), do=f"make one of the directory: {made_by}")  # fmt: skip
        if self.layers is not None and self.layers != trace.about["model"]["num_hidden_layers"]:
            raise UsageError("the trace has another number of layers", where=saved, got=self.layers,
                             expected=trace.about["model"]["num_hidden_layers"])  # fmt: skip
        return trace
