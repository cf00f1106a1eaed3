"""A checkpoint of a training, exported to Hugging Face and run there: does transformers compute what we do?"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import FileError
from mindport.parity import metrics
from mindport.parity.launch import check_frameworks, run_reference
from mindport.parity.limits import FLOAT32
from mindport.parity.taps import LOGITS
from mindport.parity.trace import read_trace
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.weights import convert
from mindport.weights.manifest import read_manifest

LOGITS_OF = f"out/{LOGITS}"


def allowed(scale: float, own: float) -> float:
    """The error of the logits that is allowed: as `verify` has it, or relative to the largest, as inside the model.

    Training moves the places where rounding falls. torch's own error is a single draw, and after twelve steps of
    SmolLM2 it was 3.4e-5, ours 1.5e-4 (before: 5.8e-5 and 9.5e-5), of logits up to 38.
    """
    return max(FLOAT32.for_logits(own), FLOAT32.cell * scale)


@dataclass(frozen=True, kw_only=True)
class ExportReport(Result):
    """A checkpoint in MindSpore beside its export in transformers.

    Attributes:
        checkpoint: a MindPort directory.
        exported: the Hugging Face directory made of it; None when it was made for this and is gone.
        made_by: the reference's class, and how it ran.
        fed: what the tokens are.
        scale: the largest logit.
        error: the largest difference of the logits from torch's in float64.
        own: torch's own in float32.
        limit: for `error`, see `allowed`.
        ours, reference: the tokens with which each goes on, row by row.
    """

    checkpoint: str
    exported: str | None
    made_by: str
    fed: str
    scale: float
    error: float
    own: float
    limit: float
    ours: tuple[tuple[int, ...], ...]
    reference: tuple[tuple[int, ...], ...]

    @property
    def greedy_equal(self) -> bool:
        return self.ours == self.reference

    @property
    def ok(self) -> bool:
        return self.error <= self.limit and self.greedy_equal

    @property
    def figure(self) -> str:
        tokens = sum(map(len, self.reference))
        rows = zip(self.ours, self.reference, strict=True)
        wrong = sum(a != b for mine, its in rows for a, b in zip(mine, its, strict=True))
        said = f"{tokens} greedy tokens equal" if self.greedy_equal else f"{wrong} of {tokens} greedy tokens differ"
        return f"logits within {self.error:.1e}, torch itself {self.own:.1e} (limit {self.limit:.1e}), {said}"

    def headline(self) -> str:
        said = "the exported checkpoint is the same model in transformers" if self.ok else (
            "the exported checkpoint is another model in transformers")  # fmt: skip
        return f"{said}: {self.figure}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(row, *(" ".join(map(str, tokens)) for tokens in pair))
                for row, pair in enumerate(zip(self.ours, self.reference, strict=True))]  # fmt: skip
        return (Table("greedy continuation", ("row", "ours", "transformers"), rows),)

    def properties(self) -> tuple[Property, ...]:
        how = "checkpoint → mindport convert --to huggingface → the class itself, logits and greedy continuation"
        return (verdict("a trained checkpoint is the same model in transformers", self.ok, how, self.figure, "CPU"),)


def check_export(checkpoint: Path | str, exported: Path | str | None = None, progress: bool = True) -> ExportReport:
    """Export a checkpoint, run it in transformers, and compare with the same checkpoint in MindSpore.

    Args:
        checkpoint: a MindPort directory, such as `checkpoints/step-00000100` of a run.
        exported: where to leave the Hugging Face directory; one that is there already is checked as it is.
        progress: say the phases on stderr.

    Raises:
        FileError: a directory is missing, damaged, or there already and something else.
        BackendError: a framework is missing or refuses.
    """
    check_frameworks()
    checkpoint, manifest = Path(checkpoint), read_manifest(Path(checkpoint))
    with tempfile.TemporaryDirectory(prefix="mindport-export-") as aside:
        target = Path(aside) / "exported" if exported is None else Path(exported)
        if not target.exists():
            convert(checkpoint, target, to="huggingface", progress=progress)
        elif not (target / "config.json").is_file():
            raise FileError("this is no exported checkpoint", where=target, expected="a Hugging Face directory",
                            do="name a new directory")  # fmt: skip
        trace = read_trace(run_reference(
            target, Path(aside) / "trace", progress=progress, allow=manifest.allowed,
            padded_vocab=manifest.model.padded_vocab,
        ))  # fmt: skip
    from mindport.parity.ours import answers

    logits, greedy = answers(checkpoint, trace["ids"])
    exact = trace.exact(LOGITS_OF)
    assert exact is not None  # the reference computes its logits in float64 as well
    own, scale = metrics.error(trace[LOGITS_OF], exact), metrics.largest(exact)
    return ExportReport(
        checkpoint=str(checkpoint), exported=None if exported is None else str(target),
        made_by=trace.about["made_by"], fed=trace.about["tokens"], scale=scale,
        error=metrics.error(logits, exact), own=own, limit=allowed(scale, own),
        ours=tuple(map(tuple, greedy.tolist())), reference=tuple(map(tuple, trace["greedy"].tolist())),
    )  # fmt: skip
