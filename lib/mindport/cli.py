"""The command line: a thin table of commands over the functions that the notebooks call.

Exit codes: 0 a positive answer, 1 a negative verdict, 2 an input that cannot be used or an answer that cannot be
written (one message), 70 a fault in MindPort itself (with its traceback), 130 interrupted, 141 the reader of the
output went away.
With `--json` stdout carries exactly one JSON object; logs and progress are always on stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import mindport
from mindport.errors import BackendError, FileError, MindPortError, UsageError
from mindport.files import check_writable, write_json
from mindport.results import Result, plain
from mindport.tables import LIMIT

OK, NEGATIVE, INPUT, BUG, INTERRUPTED, PIPE = 0, 1, 2, 70, 130, 141
LONGEST = 200  # characters of a path in a message
EXIT_CODES = "Exit codes: 0 yes, 1 a negative verdict, 2 an input that cannot be used, 70 a fault in MindPort itself."
ISSUE = "this is a fault in MindPort: please report the lines above, with the command and `mindport doctor --json`"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        _open_streams()
        return _attempt(words, _answers_json(words))
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _discard()
        return PIPE
    except OSError as error:  # while the answer was written: what the work meets is refused where it is met
        _discard()
        _say(f"error: {_unwritable(error)}")
        return INPUT


def _attempt(words: Sequence[str], as_json: bool) -> int:
    try:
        result = _result(words)
        answer = _json(result.as_dict()) if as_json else result.text(limit=LIMIT)
    except MindPortError as error:
        return _refused(error, as_json)
    except ModuleNotFoundError as error:
        return _fault() if _is_ours(error) else _refused(_missing(error), as_json)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _refused(_by_the_system(error), as_json)
    except Exception:
        return _fault()
    print(answer, flush=True)
    return OK if result.ok else NEGATIVE


def _answers_json(words: Sequence[str]) -> bool:
    """Whether stdout is for JSON; `bench --json FILE` has the file for it, and tells the rest in words."""
    if "--json" not in words:
        return False
    after = words[words.index("--json") + 1 :]
    return not (words[0] == "bench" and after and not after[0].startswith("-"))


def _result(words: Sequence[str]) -> Result:
    options = _parser().parse_args(words)
    with _stdout_kept():
        return options.command(options)


# One function a command; each imports what it needs, so that `doctor` runs where nothing is installed.


def doctor(options: argparse.Namespace) -> Result:
    from mindport.environment.doctor import diagnose_environment

    return diagnose_environment(probes=not options.quick)


def fetch(options: argparse.Namespace) -> Result:
    from mindport import sources

    return sources.fetch(options.name, to=options.to)


def config(options: argparse.Namespace) -> Result:
    from mindport.config.read import inspect_config

    return inspect_config(_model(options.path), allow=tuple(options.allow), padded_vocab=options.padded_vocab)


def convert(options: argparse.Namespace) -> Result:
    from mindport import weights

    return weights.convert(
        _model(options.source), options.target, to=options.to, dtype=options.dtype, file_format=options.format,
        overwrite=options.overwrite, allow=tuple(options.allow), padded_vocab=options.padded_vocab,
    )  # fmt: skip


def export(options: argparse.Namespace) -> Result:
    from mindport import mindformers

    data = {} if options.data is None else {"data": options.data}
    recipe = mindformers.Recipe(seq_length=options.seq_length, recompute=options.recompute, **data)
    return mindformers.export(options.directory, options.yaml, options.layout, options.schema, recipe)


def verify(options: argparse.Namespace) -> Result:
    from mindport import debug

    return debug.verify(
        _model(options.directory), converted=options.converted, trace=options.trace, layers=options.layers,
        allow=tuple(options.allow), padded_vocab=options.padded_vocab, steps=options.steps,
    )  # fmt: skip


def trace(options: argparse.Namespace) -> Result:
    from mindport import tracing

    what = options.what if tracing.is_function(options.what) else _model(options.what)
    return tracing.trace(what, **{k: v for k, v in vars(options).items() if k not in ("what", "command", "json")})


def compare(options: argparse.Namespace) -> Result:
    from mindport import tracing

    rules = tracing.read_rules(options.map)
    return tracing.compare_traces(options.a, options.b, rules, limit=options.limit, padding=options.padding)


def faultlab(options: argparse.Namespace) -> Result:
    from mindport import debug

    return debug.fault_lab(only=options.only, progress=True)


def run(options: argparse.Namespace) -> Result:
    from mindport import run as runner

    return runner.run(options.model, size=options.size, only=options.only, out=options.out, allow=tuple(options.allow))


def bench(options: argparse.Namespace) -> Result:
    from mindport import tuning

    if isinstance(options.json, Path):
        check_writable(options.json)  # minutes before the answer is there
    result = tuning.bench(options.name, quick=options.quick)
    if isinstance(options.json, Path):
        write_json(options.json, plain(result.as_dict()))
    return result


def claims(options: argparse.Namespace) -> Result:
    from mindport import claims as ledger

    return ledger.run(options.only, options.topic)


def coverage(options: argparse.Namespace) -> Result:
    from mindport import coverage as operators

    if options.list == (options.target is not None):
        raise UsageError(
            "name a target, or ask for the table", do="mindport coverage PATH, or mindport coverage --list"
        )
    return operators.operator_table() if options.list else operators.cover(options.target, timeout=options.timeout)


@dataclass(frozen=True)
class Command:
    """One line of the table: what to call, what to say, what to accept."""

    call: Callable[[argparse.Namespace], Result]
    says: str
    example: str
    arguments: tuple[tuple[tuple[str, ...], dict[str, Any]], ...]


def _arg(*names: str, **options: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return names, options


def _seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < float("inf"):
        raise ValueError
    return seconds


_FLAG: dict[str, Any] = {"action": "store_true"}
_MODEL_HELP = "a Hugging Face directory, or a name that `mindport fetch` knows"

_ALLOW = _arg("--allow", nargs="+", action="extend", default=[], metavar="KEY", help="unknown keys to let pass")
_PADDED = _arg("--padded-vocab", type=int, metavar="N", help="the embedding has N rows; beyond vocab_size is padding")

COMMANDS = {
    "doctor": Command(
        doctor, "check this machine: packages, versions, devices, probes that do the thing",
        "mindport doctor --quick",
        (_arg("--quick", **_FLAG, help="leave the probes out"),),
    ),
    "fetch": Command(
        fetch, "get a bundled model or text", "mindport fetch smollm2",
        (_arg("name", metavar="NAME"), _arg("--to", type=Path, metavar="DIR", help="put it here, not in the cache")),
    ),
    "config": Command(
        config, "map a config.json: every key mapped, derived, harmless, refused or unknown",
        "mindport config models/llama --allow my_key",
        (_arg("path", metavar="PATH", help=_MODEL_HELP), _ALLOW, _PADDED),
    ),
    "convert": Command(
        convert, "convert weights, account for each tensor, and read the result back",
        "mindport convert models/llama models/llama-ms --dtype float32",
        (_arg("source", metavar="SRC", help=_MODEL_HELP), _arg("target", type=Path, metavar="DST"),
         _arg("--to", default="mindspore", metavar="TARGET",
              help="mindspore, huggingface, mindformers-llama, mindformers-llama-concat, mindformers-mcore or "
              "mindformers-gpt2"),
         _arg("--dtype", choices=("keep", "float32", "float16", "bfloat16"), default="keep"),
         _arg("--format", choices=("safetensors", "ckpt"), default="safetensors"),
         _arg("--overwrite", **_FLAG, help="replace DST"), _ALLOW, _PADDED),
    ),
    "export": Command(
        export, "write the YAML with which MindSpore Transformers trains what `convert --to mindformers-…` wrote",
        "mindport export models/llama-mf --layout dp1,tp2,pp1 --yaml llama.yaml",
        (_arg("directory", type=Path, metavar="DIR", help="weights that `mindport convert` wrote for it"),
         _arg("--yaml", type=Path, metavar="OUT", required=True, help="the file to write"),
         _arg("--layout", default="dp1,tp1,pp1", help="degrees of data, tensor and pipeline parallelism"),
         _arg("--schema", choices=("graph", "pynative"), default="graph", help="pynative: mindformers 2.x"),
         _arg("--seq-length", type=int, metavar="N", help="tokens of a sample; default: the model's context"),
         _arg("--data", metavar="PATH", help="training data: MindRecord for legacy networks, else Megatron's"),
         _arg("--recompute", **_FLAG, help="save memory: compute the forward pass again in the backward pass")),
    ),
    "verify": Command(
        verify, "compare the MindSpore model with transformers, layer by layer, and step by step",
        "mindport verify models/llama --steps 50",
        (_arg("directory", metavar="DIR", help=_MODEL_HELP),
         _arg("--converted", type=Path, metavar="DIR", help="weights that `mindport convert` wrote"),
         _arg("--trace", type=Path, metavar="DIR", help="a saved reference, where torch is absent"),
         _arg("--layers", type=int, metavar="N", help="only the first N layers"),
         _arg("--steps", type=int, default=0, metavar="N",
              help="train both N steps as well: gradients, optimizer, losses; 32 bytes a parameter"), _ALLOW, _PADDED),
    ),
    "faultlab": Command(
        faultlab, "plant faults one by one into small models, and see whether each is found and named",
        "mindport faultlab --only swap theta no_mask",
        (_arg("--only", nargs="+", action="extend", default=[], metavar="NAME", help="these faults only"),),
    ),
    "trace": Command(
        trace, "write down what each module computes", "mindport trace demo.py:build --out traces/torch",
        (_arg("what", metavar="WHAT", help="FILE.py:FUNCTION that returns (module, inputs), or a model as for verify"),
         _arg("--out", type=Path, metavar="DIR", required=True), _arg("--overwrite", **_FLAG, help="replace DIR"),
         _arg("--framework", choices=("torch", "mindspore")), _arg("--match", metavar="REGEX", help="of module paths"),
         _arg("--dropout", **_FLAG, help="train mode, as the seed draws it"), _arg("--seed", type=int, default=0),
         _arg("--layers", type=int, metavar="N", help="only the first N layers"), _ALLOW, _PADDED),
    ),
    "compare": Command(
        compare, "hold trace B against trace A, value by value", "mindport compare A B --map norm=ln --limit 1e-4",
        (_arg("a", type=Path, metavar="A"), _arg("b", type=Path, metavar="B"), _arg("--limit", type=float, metavar="X"),
         _arg("--map", action="append", default=[], metavar="RULE", help="A's name=B's name, or FILE.yaml"),
         _arg("--padding", metavar="ARRAY", help="of A, 0 where padding is; ARRAY=N: N; default: attention_mask")),
    ),
    "bench": Command(
        bench, "time ours beside a peer, in one run, and hold the two to the same numbers",
        "mindport bench step --json step.json",
        (_arg("name", metavar="NAME",
              help="attention, layer, step: beside PyTorch; knobs: the step with one fast formulation off at a time; "
              "convert: weights, beside a plain copy of the same bytes"),
         _arg("--quick", **_FLAG, help="tiny shapes, to see that it works; the times mean nothing"),
         _arg("--json", nargs="?", type=Path, const=True, default=False, metavar="FILE",
              help="write the result to FILE as well; without FILE, answer with one JSON object on stdout")),
    ),
    "claims": Command(
        claims, "run the checks of what articles claim about MindSpore, and compare with the ledger's verdicts",
        "mindport claims --only C019 C031",
        (_arg("--only", nargs="+", action="extend", default=[], metavar="ID", help="these claims"),
         _arg("--topic", nargs="+", action="extend", default=[], metavar="TOPIC",
              help="those of a topic: environment, attention, layers, modes, weights, training, …")),
    ),
    "coverage": Command(
        coverage, "which torch operators a source or a module uses, and which of them run in MindSpore here",
        "mindport coverage modeling_llama.py",
        (_arg("target", nargs="?", metavar="PATH_OR_MODULE",
              help="a Python file, a directory or package.module, which is read and never executed; or "
              "package.module:Name, a live module that is made and called"),
         _arg("--list", **_FLAG, help="show the table of operators; nothing is tried"),
         _arg("--timeout", type=_seconds, default=120.0, metavar="S", help="seconds for a live module")),
    ),
    "run": Command(
        run, "run the notebooks and leave the report", "mindport run --model models/llama --size full --only 02,03",
        (_arg("--model", metavar="DIR", help=_MODEL_HELP),
         _arg("--size", choices=("smoke", "small", "full"), default="small"),
         _arg("--only", metavar="STEPS", help="two-digit steps, separated by commas"),
         _arg("--out", type=Path, metavar="DIR", help="default: runs/<model> in the repository"), _ALLOW),
    ),
}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, do=f"see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        """The help and the version; argparse itself says nothing when they cannot be written."""
        try:
            print(message, end="", file=file or sys.stderr, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            _discard()
            raise _unwritable(error) from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mindport", description=mindport.__doc__.splitlines()[0], epilog=EXIT_CODES, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"mindport {mindport.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        sub = subparsers.add_parser(
            name, help=command.says, description=command.says, epilog=f"example: {command.example}", allow_abbrev=False
        )
        for names, options in command.arguments:
            sub.add_argument(*names, **options)
        if not any("--json" in names for names, _ in command.arguments):
            sub.add_argument("--json", action="store_true", help="answer with one JSON object on stdout")
        sub.set_defaults(command=command.call)
    return parser


def _model(name: str) -> Path:
    """The path of a model; a file, such as a config.json, is left to the command."""
    from mindport import sources

    path = Path(name)
    return path if path.is_file() else sources.resolve(name)


@contextlib.contextmanager
def _stdout_kept() -> Iterator[None]:
    """Send what the block prints, from Python or from C++, to stderr: stdout is for the answer."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C code printed waits in a buffer of its own
        os.dup2(kept, 1)
        os.close(kept)


def _open_streams() -> None:
    """Make standard streams that take every character, and none of which another file's descriptor can become.

    Raises:
        OSError: standard output is closed, so that no answer can be given.
    """
    closed = [number for number in range(3) if not _is_open(number)]
    for number in closed:
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if 1 in closed or sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed; send it to a file, or to /dev/null")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _discard() -> None:
    """Send what is left in the buffers to nowhere, or Python complains once more as it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(nowhere, number)


def _unwritable(error: OSError) -> MindPortError:
    return FileError("the answer cannot be written", where="standard output", got=error.strerror or error)


def _json(answer: Any) -> str:
    return json.dumps(plain(answer), allow_nan=False)


def _say(text: str) -> None:
    """On stderr; where that takes nothing there is no place left to say so, and the exit code stands."""
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        _discard()


def _refused(error: MindPortError, as_json: bool) -> int:
    _say(f"error: {error}")
    if as_json:
        parts = {name: getattr(error, name) for name in ("what", "where", "got", "expected", "do")}
        values = {name: None if value is None else str(value) for name, value in parts.items()}
        print(_json({"ok": False, "error": values}), flush=True)
    return INPUT


def _by_the_system(error: OSError) -> MindPortError:
    name = error.filename if error.filename is None else os.fsdecode(error.filename)
    where = name and (name if len(name) <= LONGEST else name[:LONGEST] + "…")
    return FileError("the system refuses a file", where=where, got=error.strerror or error,
                     do="check the path, and your rights there")  # fmt: skip


def _is_ours(error: ModuleNotFoundError) -> bool:
    """Whether a module of this package is missing; any other package is the user's to install."""
    return error.name is None or error.name.split(".")[0] == "mindport"


def _missing(error: ModuleNotFoundError) -> MindPortError:
    return BackendError("a package is not installed", got=error.name, do="`mindport doctor` says which, and how")


def _fault() -> int:
    _say(traceback.format_exc() + ISSUE)
    return BUG
