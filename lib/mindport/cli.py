"""The command line: a thin table of commands over the functions that the notebooks call.

Exit codes: 0 a positive answer, 1 a negative verdict, 2 an input that cannot be used or an answer that cannot be
written (one message), 70 a fault in MindPort itself (with its traceback), 130 interrupted, 141 the reader of the
output went away, 143 ended by SIGTERM; a training that is ended by a signal writes a checkpoint and answers first.
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
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

import mindport
from mindport.commands import COMMANDS
from mindport.errors import BackendError, FileError, MindPortError, UsageError
from mindport.results import Result, plain
from mindport.tables import LIMIT

INPUT, BUG, INTERRUPTED, PIPE, TERMINATED = 2, 70, 130, 141, 143
LONGEST = 200  # characters of a path in a message
EXIT_CODES = "Exit codes: 0 yes, 1 a negative verdict, 2 an input that cannot be used, 70 a fault in MindPort itself."
ISSUE = "this is a fault in MindPort: please report the lines above, with the command and `mindport doctor --json`"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        _open_streams()
        with _terminable():
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
    return result.exit_code


def _answers_json(words: Sequence[str]) -> bool:
    """Whether stdout is for JSON; `bench --json FILE` has the file for it, and tells the rest in words."""
    if words[:1] == ["launch"]:  # what follows the script is its own
        words = _before_script(words)
    if "--json" not in words:
        return False
    after = words[words.index("--json") + 1 :]
    return not (words[0] == "bench" and after and not after[0].startswith("-"))


def _before_script(words: Sequence[str]) -> list[str]:
    """The words of `launch` up to its script, whatever this is called."""
    named = [(names, options) for names, options in COMMANDS["launch"].arguments if names[0].startswith("-")]
    with_value = {name for names, options in named if options.get("action") != "store_true" for name in names}
    end = 1
    while end < len(words) and words[end].startswith("-"):
        end += 1 + (words[end] in with_value)
    return list(words[:end])


def _result(words: Sequence[str]) -> Result:
    options = _parser().parse_args(words)
    with _stdout_kept():
        return options.command(options)


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


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM (of `timeout`, of a scheduler) unwind the block: what was started is ended, nothing half-written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        _say("terminated")
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    return error.exit_code


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
