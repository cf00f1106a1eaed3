"""Starting the reference as a process of its own, so that torch and MindSpore never meet."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mindport.config import read_config
from mindport.errors import BackendError
from mindport.fork_server import start
from mindport.processes import ending, environment

NEEDED = ("torch", "transformers")
IMPORTED = (*NEEDED, "transformers.modeling_utils", "transformers.masking_utils", "transformers.modeling_layers")
FORWARD, TRAINING = "mindport.parity.reference", "mindport.parity.reference_training"
RUN = "mindport.parity.reference_run"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
FAILED = "reference-failed: "  # begins the last line of a process that failed, which says why


def run_reference(
    directory: Path | str,
    out: Path | str,
    *,
    layers: int | None = None,
    overwrite: bool = False,
    progress: bool = True,
    allow: Sequence[str] = (),
    padded_vocab: int | None = None,
    steps: int = 0,
) -> Path:
    """Write the trace of a Hugging Face directory's own transformers class: of a forward pass, or of a training.

    Args:
        directory: the Hugging Face directory.
        out: the trace to write, a directory.
        layers: keep the first so many layers.
        overwrite: replace a trace that is there.
        progress: pass the process's messages on to stderr.
        allow: unknown keys of config.json that the user knows to be harmless.
        padded_vocab: rows of the embedding, where those beyond vocab_size are padding.
        steps: train so many steps, and keep those.

    Raises:
        ConfigError: the configuration cannot go across.
        BackendError: torch or transformers is not installed, or the process failed; its last line is quoted.
    """
    check_frameworks()
    read_config(directory, allow, padded_vocab)  # what stops it is said here, once, before a process is started
    module = TRAINING if steps else FORWARD
    command = [module, "--model", str(directory), "--out", str(out)]
    command += ["--steps", str(steps)] * (steps > 0)
    command += ["--layers", str(layers)] * (layers is not None) + ["--overwrite"] * overwrite
    _finish([*command, *_known(allow, padded_vocab)], Path(directory), progress)
    return Path(out)


def run_beside(
    directory: Path | str, out: Path | str, *, batches: Path, recipe: Path, threads: int, exact: bool = False,
    progress: bool = True, allow: Sequence[str] = (), padded_vocab: int | None = None,
) -> Path:  # fmt: skip
    """Train a Hugging Face directory's own transformers class on recorded batches; see `reference_run`.

    Args:
        directory: the Hugging Face directory, with the weights to begin with.
        out: the answer to write.
        batches, recipe: what it is fed, and how it is trained, as `exchange` wrote them.
        threads: that it computes with.
        exact: do it all once more in float64.
        progress: pass the process's messages on to stderr.
        allow: unknown keys of config.json that the user knows to be harmless.
        padded_vocab: rows of the embedding, where those beyond vocab_size are padding.

    Raises:
        BackendError: as in `run_reference`.
    """
    check_frameworks()
    command = [RUN, "--model", str(directory), "--out", str(out), "--batches", str(batches)]
    command += ["--recipe", str(recipe), *["--exact"] * exact, *_known(allow, padded_vocab)]
    _finish(command, Path(directory), progress, dict.fromkeys(THREADS, str(threads)))
    return Path(out)


def make_tiny(names: Sequence[str], out: Path, *, progress: bool = True) -> None:
    """Tiny random models of `mindport.parity.tiny` and their traces, as `out`/NAME/source and `out`/NAME/trace.

    Raises:
        BackendError: as in `run_reference`.
    """
    check_frameworks()
    _finish(["mindport.parity.reference_tiny", "--out", str(out), *names], out, progress)


def _known(allow: Sequence[str], padded_vocab: int | None) -> list[str]:
    """What the user knows of a configuration, as arguments."""
    padded = [] if padded_vocab is None else ["--padded-vocab", str(padded_vocab)]
    return [*(word for key in allow for word in ("--allow", key)), *padded]


def _finish(command: list[str], where: Path, progress: bool, settings: Mapping[str, str] | None = None) -> None:
    """Run a process of the reference to its end."""
    module, *arguments = command
    said, says = os.pipe()
    with open(said, encoding="utf-8", errors="replace") as lines:
        with open(says, "wb") as stderr:
            process = start(module, arguments, IMPORTED, environ=environment(**{**OFFLINE, **(settings or {})}),
                            stderr=stderr)  # fmt: skip
        last = ""
        try:
            for line in lines:
                last = line.strip() or last
                if progress and not line.startswith(FAILED):
                    print(f"reference: {line}", end="", file=sys.stderr)
        except BaseException:
            process.kill()
            raise
        finally:
            code = process.wait()
    if code:
        raise BackendError(
            f"the reference process ended with {code}",
            where=where,
            got=_reason(code, last),
            do=f"mend what it says; to run it by itself: python -m {module} --help",
        )


def _reason(code: int, last: str) -> str:
    """One line: what the process said at last, or which signal ended it."""
    if code < 0:
        return ending(code) + ": the system ended it, perhaps for want of memory" * (code == -signal.SIGKILL)
    return last.removeprefix(FAILED) or "it said nothing"


def check_frameworks() -> None:
    """Stop before any work where there is nothing to compare with.

    Raises:
        BackendError: torch or transformers is not installed.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise BackendError(
            "the reference cannot be run here",
            where=sys.executable,
            got=f"{' and '.join(missing)} not installed",
            do=f"pip install {' '.join(missing)}, or make a trace where they are and pass it with --trace: "
            "python -m mindport.parity.reference --model DIR --out TRACE",
        )
