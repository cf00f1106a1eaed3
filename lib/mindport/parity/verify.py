"""`mindport verify`: a Hugging Face directory, converted, run on both sides, and compared."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindport.errors import BackendError, FileError, UsageError
from mindport.parity.compare import compare
from mindport.parity.comparison import Comparison
from mindport.parity.identity import check_untrained, identity, same_model
from mindport.parity.inventory import Inventory, take
from mindport.parity.origin import Origin
from mindport.parity.steps import StepsReport
from mindport.parity.trace import Trace
from mindport.parity.training import compare_training
from mindport.results import Property
from mindport.tables import Table
from mindport.weights.manifest import NAME as MANIFEST
from mindport.weights.manifest import Manifest, read_manifest

COMPILE = "Graph, compile"
MOST_STEPS = 100_000  # the batches and the curve of so many are held in memory
Look = Callable[[Path, Trace, Trace, Comparison], object]  # directory that was run, reference, ours, what came out
LookAtTraining = Callable[[Trace, Trace, StepsReport], object]  # reference, ours, what came out


@dataclass(frozen=True)
class Continuation:
    """One prompt, and how each side goes on, as text when the model has a tokenizer."""

    prompt: str
    reference: str
    ours: str


@dataclass(frozen=True, kw_only=True)
class VerifyReport(Comparison):
    """The comparison, and where it comes from.

    Attributes:
        inventory: configuration, parameters and far positions, beside the source's.
        directory: the reference's directory, or the trace's.
        converted: the MindPort directory that was tried; None when it was made for this and is gone.
        layers_compared, layers_of: how many layers were compared, and how many the model has.
        tokens: (rows, tokens) of the input.
        fed: what the tokens are.
        continuations: each row's, in both.
        seconds: by phase.
        versions: of the reference's packages and of MindSpore.
        training: both trained alike; None when that was not asked for.
    """

    inventory: Inventory
    directory: str
    converted: str | None
    layers_compared: int
    layers_of: int
    tokens: tuple[int, ...]
    fed: str
    continuations: tuple[Continuation, ...]
    seconds: dict[str, float]
    versions: dict[str, str]
    training: StepsReport | None = None

    @property
    def compile_seconds(self) -> float:
        """How long the Graph of the whole model took to compile."""
        return self.seconds[COMPILE]

    @property
    def ok(self) -> bool:
        return super().ok and self.inventory.ok and (self.training is None or self.training.ok)

    def headline(self) -> str:
        said = super().headline()
        if super().ok and not self.inventory.ok:
            said = "right on the tokens that were fed, but " + "; ".join(self.inventory.faults())
        if self.training is not None:
            said += f"; {self.training.headline()}"
        return said + f" (the first {self.layers_compared} of {self.layers_of} layers)" * self.is_partial

    @property
    def is_partial(self) -> bool:
        """Whether some layers were left out."""
        return self.layers_compared < self.layers_of

    def properties(self) -> tuple[Property, ...]:
        rest = f"the first {self.layers_compared} of {self.layers_of} layers were run"
        left_out = Property("the layers after that agree", "not verified", rest, backend=self.device)
        trained = () if self.training is None else self.training.properties()
        partly = (left_out,) * self.is_partial
        return (*super().properties(), *self.inventory.properties(), *trained, *partly)

    def tables(self) -> tuple[Table, ...]:
        trained = () if self.training is None else self.training.tables()
        return (*super().tables(), self.inventory.table(), self.texts(), *trained, self.times())

    def texts(self) -> Table:
        """What both sides write."""
        rows = [
            (repr(c.prompt), repr(c.reference), repr(c.ours), "pass" if c.reference == c.ours else "failed")
            for c in self.continuations
        ]
        return Table("greedy continuation", ("prompt", "transformers", "ours", "state"), rows)

    def times(self) -> Table:
        """Seconds by phase."""
        return Table("seconds", ("phase", "seconds"), list(self.seconds.items()))


def verify(
    directory: Path | str, converted: Path | str | None = None, trace: Path | str | None = None,
    layers: int | None = None, progress: bool = True, allow: Sequence[str] = (), padded_vocab: int | None = None,
    look: Look = lambda *_: None, steps: int = 0, look_at_training: LookAtTraining = lambda *_: None,
) -> VerifyReport:  # fmt: skip
    """Hold a converted model against the transformers class it came from.

    Args:
        directory: a Hugging Face directory, which is converted and is the reference; or a MindPort directory, whose
            manifest says where its reference is.
        converted: a MindPort directory to try instead of a fresh conversion.
        trace: a saved trace of the reference; torch and transformers are then not needed. That of a training lies in
            its folder `training`.
        layers: compare the first so many layers.
        progress: say the phases on stderr.
        allow: unknown keys of config.json that the user knows to be harmless; those that the conversion was told are
            known already.
        padded_vocab: rows of the embedding, where those beyond vocab_size are padding; a conversion knows it already.
        look: is shown both traces and their comparison while they are there.
        steps: train both so many steps, from the same weights and batches, and compare those too. Each costs torch a
            step in float32 and one in float64, and us one; AdamW in float64 takes 32 bytes of memory a parameter.
        look_at_training: is shown both trainings and their comparison.

    Raises:
        ConfigError: the configuration cannot go across.
        FileError: a directory or trace is missing, damaged, or of another model.
        BackendError: a framework is missing or refuses.
        UsageError: the arguments do not fit together.
    """
    directory, seconds = Path(directory), {}
    _check_steps(steps)
    with tempfile.TemporaryDirectory(prefix="mindport-verify-") as aside, _timed(seconds, progress) as phase:
        source, tried, manifest = _tried(directory, converted, Path(aside), allow, padded_vocab, phase)
        saved, known = None if trace is None else Path(trace), (*allow, *manifest.allowed)
        origin = Origin(source, saved, layers, known, manifest.model.padded_vocab, progress)
        with phase("reference"):
            reference, trained = _references(origin, Path(aside), steps, tried)
        decode = _decoder(tried)  # what it refuses is said before the long part
        ours = _observe(tried, reference, progress)
        with phase("compare"):
            compared, inventory = compare(reference, ours), take(tried, reference, ours)
        look(tried, reference, ours, compared)
        training = verify_training(tried, trained, progress, look_at_training) if trained else None
    return VerifyReport(
        **{field.name: getattr(compared, field.name) for field in dataclasses.fields(compared)},
        inventory=inventory,
        layers_of=reference.about["whole"]["num_hidden_layers"],
        directory=str(source),
        converted=str(tried) if converted or tried == directory else None,
        layers_compared=reference.about["model"]["num_hidden_layers"],
        tokens=reference["ids"].shape,
        fed=reference.about["tokens"],
        continuations=_continuations(decode, reference, ours),
        seconds={**seconds, **ours.about["seconds"], **(training.seconds if training else {})},
        versions={**reference.about["versions"], **ours.about["versions"]},
        training=training,
    )


def verify_training(
    converted: Path | str, reference: Trace, progress: bool = True, look: LookAtTraining = lambda *_: None
) -> StepsReport:
    """Train a converted model as the reference was trained, and compare.

    Args:
        converted: a MindPort directory.
        reference: the trace of a training, as `run_reference(…, steps=N)` writes it.
        progress: say the phases on stderr.
        look: is shown both traces and their comparison.

    Raises:
        FileError: a directory is missing or damaged, or the trace is of another model.
        BackendError: MindSpore is missing or refuses.
    """
    _mindspore()
    from mindport.parity.ours_training import observe_training

    same_model(reference.about["source"], Path(converted))
    ours = observe_training(Path(converted), reference, say=_teller(progress))
    compared = compare_training(reference, ours)
    look(reference, ours, compared)
    return compared


def converted_for(directory: Path | str, out: Path | str, allow: Sequence[str] = ()) -> Path:
    """`<out>/converted` when it was made from this directory's files; else it is converted anew, said aloud."""
    from mindport.weights import convert

    directory, converted = Path(directory), Path(out) / "converted"
    if (converted / MANIFEST).is_file():
        try:
            same_model(identity(directory), converted)
            return converted
        except FileError as error:
            print(f"{converted} is of another model ({error.what}): converting anew")
    print(convert(directory, converted, overwrite=True, progress=False, allow=allow).headline())
    return converted


def _places(directory: Path, converted: Path | str | None) -> tuple[Path, Path | None]:
    """(the reference's directory, the MindPort directory to try or None)."""
    if not directory.is_dir():
        raise FileError("there is no such directory", where=directory)
    if converted is not None:
        return directory, Path(converted)
    if not (directory / MANIFEST).is_file():
        return directory, None
    manifest = read_manifest(directory)
    check_untrained(manifest, directory)
    if (source := manifest.source) is None:
        raise UsageError("this MindPort directory came from no Hugging Face directory", where=directory,
                         do="name the reference: verify(reference, converted=…)")  # fmt: skip
    return Path(source.path), directory


def _tried(
    directory: Path, converted: Path | str | None, aside: Path, allow: Sequence[str], padded_vocab: int | None,
    phase: Callable[[str], Any],
) -> tuple[Path, Path, Manifest]:  # fmt: skip
    """The reference's directory, and the MindPort directory to try, which is made where there is none; its manifest."""
    source, tried = _places(directory, converted)
    _mindspore()  # said now: the reference takes minutes
    if tried is None:
        with phase("convert"):
            tried = _convert(source, aside / "converted", allow, padded_vocab)
    manifest = read_manifest(tried)
    _check_padding(padded_vocab, manifest, tried)
    return source, tried, manifest


def _convert(source: Path, target: Path, allow: Sequence[str], padded_vocab: int | None) -> Path:
    from mindport.weights import convert

    convert(source, target, progress=False, allow=allow, padded_vocab=padded_vocab)
    return target


def _check_steps(steps: int) -> None:
    if not 0 <= steps <= MOST_STEPS:
        raise UsageError("so many steps cannot be trained", where="steps", got=steps, expected=f"0 to {MOST_STEPS:,}")


def _check_padding(declared: int | None, manifest: Manifest, tried: Path) -> None:
    if declared not in (None, manifest.model.padded_vocab):
        raise UsageError("the weights were converted with another padding", where=tried, got=declared,
                         expected=manifest.model.padded_vocab, do="convert them again, or leave it out")  # fmt: skip


def _references(origin: Origin, aside: Path, steps: int, tried: Path) -> tuple[Trace, Trace | None]:
    """The traces of the forward pass and, where steps are asked for, of the training; both of the model that is tried.

    Raises:
        FileError: one is of another model.
    """
    reference = origin.forward(aside)
    trained = origin.training(aside, steps, reference) if steps else None
    for each in filter(None, (reference, trained)):
        same_model(each.about["source"], tried)
    return reference, trained


def _observe(tried: Path, reference: Trace, progress: bool) -> Trace:
    from mindport.parity.ours import observe

    return observe(tried, reference, say=_teller(progress))


def _mindspore() -> None:
    if importlib.util.find_spec("mindspore") is None:
        raise BackendError("MindSpore is not installed", where=sys.executable, do="pip install 'mindspore==2.10.*'")


def _teller(progress: bool) -> Callable[[str], Any]:
    return _say if progress else lambda phase: None


def _continuations(
    decode: Callable[[np.ndarray], str], reference: Trace, ours: Trace
) -> tuple[Continuation, ...]:  # fmt: skip
    start = reference["ids"].shape[1] - reference["greedy"].shape[1]
    prompts = reference["ids"][:, :start]
    return tuple(
        Continuation(*map(decode, row)) for row in zip(prompts, reference["greedy"], ours["greedy"], strict=True)
    )


def _decoder(directory: Path) -> Callable[[np.ndarray], str]:
    """Tokens → text with the model's tokenizer.json, or the ids themselves."""
    file = directory / "tokenizer.json"
    if not file.is_file():
        return lambda ids: " ".join(map(str, ids))
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise FileError("not a tokenizer that the tokenizers library reads", where=file, got=error,
                        do="download or save the tokenizer again") from None  # fmt: skip
    return lambda ids: tokenizer.decode(np.asarray(ids).tolist(), skip_special_tokens=False)


@contextmanager
def _timed(seconds: dict[str, float], progress: bool) -> Iterator[Any]:
    """A context manager for each phase that says its name and keeps its seconds."""

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        if progress:
            _say(name)
        start = time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - start, 2)

    yield phase


def _say(phase: str) -> None:
    print(f"verify: {phase}", file=sys.stderr)
