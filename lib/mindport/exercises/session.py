"""A learner's session: checks answers, opens hints, and remembers both in `<out>/progress.json`."""

from __future__ import annotations

import contextlib
import html
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mindport.errors import BackendError, FileError, MappingError, UsageError, some
from mindport.exercises.exercise import Exercise, Skip
from mindport.exercises.registry import registry
from mindport.files import read_json, write_json
from mindport.tables import Table

TRIES = 3  # wrong answers before the solution opens
WIDTH = 90  # columns of a plain note; a page that is narrower would break inside words
MARKS = {"right": "✓", "wrong": "✗", "not attempted": "○", "skipped": "»"}
OUTCOMES = tuple(MARKS)


@dataclass(frozen=True)
class Note:
    """One answer to the learner: plain text, and HTML where a front end is there to show it."""

    state: str
    text: str
    rich: bool = False

    def __repr__(self) -> str:
        return "\n".join(map(_wrapped, self._line().splitlines()))

    def _repr_html_(self) -> str | None:
        if not self.rich:
            return None
        color = {"right": "#116329", "wrong": "#a40e26"}.get(self.state, "#57606a")
        body = html.escape(self._line()).replace("\n", "<br>")
        return f'<p style="border-left:4px solid {color};padding:.3em .8em;margin:.4em 0">{body}</p>'

    def _line(self) -> str:
        return f"{MARKS.get(self.state, '·')} {self.state}: {self.text}"


@dataclass
class Progress:
    """What a learner has done with one exercise."""

    state: str = "not attempted"
    tries: int = 0
    hints: int = 0


class Exercises:
    """The exercises of a run.

    Args:
        out: the directory of the run; progress is kept in its `progress.json`.
        interactive: show notes as HTML; otherwise they are plain text.
        instructor: open every solution at once.
        exercises: the questions by id; by default those of all steps.
    """

    def __init__(
        self,
        out: str | Path,
        *,
        interactive: bool = False,
        instructor: bool = False,
        exercises: Mapping[str, Exercise] | None = None,
    ) -> None:
        self.path = Path(out) / "progress.json"
        self._rich, self._instructor = interactive, instructor
        self._exercises = dict(registry() if exercises is None else exercises)
        self._progress, self._changed = _read(self.path), set[str]()

    def question(self, name: str) -> Note:
        """What is asked."""
        return self._note("question", f"{name}\n{self._exercise(name).question}")

    def check(self, name: str, answer: Any, **given: Any) -> Note:
        """Judge an answer; None shows the question and is "not attempted", and `Skip(why)` is "skipped".

        Args:
            name: the exercise.
            answer: what the learner says.
            given: what the question is about, where that is the learner's own model.
        """
        state, text = _judge(self._exercise(name), answer, given)
        progress = self._of(name)
        progress.tries += state in ("right", "wrong")
        if progress.state != "right":
            progress.state = state
        self._save()
        return self._note(state, f"{name}{text}{self._advice(progress) if state == 'wrong' else ''}")

    def hint(self, name: str) -> Note:
        """The next hint; there are two."""
        hints, progress = self._exercise(name).hints, self._of(name)
        progress.hints = min(progress.hints + 1, len(hints))
        self._save()
        return self._note("hint", f"{name}, hint {progress.hints} of {len(hints)}\n{hints[progress.hints - 1]}")

    def solution(self, name: str, **given: Any) -> Note:
        """The solution, after a right answer, three wrong ones, or for an instructor.

        Args:
            name: the exercise.
            given: what the question is about, as in `check`.
        """
        exercise, progress = self._exercise(name), self._of(name)
        if self._instructor or progress.state == "right" or progress.tries >= TRIES:
            text = exercise.solution(**given) if callable(exercise.solution) else exercise.solution
            return self._note("solution", f"{name}\n{text}")
        return self._note("locked", f"{name}: the solution opens after {TRIES} tries, {TRIES - progress.tries} to go")

    def table(self) -> Table:
        """How far the learner has come."""
        rows = [(name, *asdict(self._progress.get(name, Progress())).values()) for name in sorted(self._exercises)]
        return Table("exercises", ("exercise", "state", "tries", "hints"), rows)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str | None:
        return self.table()._repr_html_() if self._rich else None

    def _exercise(self, name: str) -> Exercise:
        if name not in self._exercises:
            raise UsageError("there is no such exercise", got=name, expected=some(sorted(self._exercises), 20))
        return self._exercises[name]

    def _of(self, name: str) -> Progress:
        """The progress that is about to change."""
        self._changed.add(name)
        return self._progress.setdefault(name, Progress())

    def _advice(self, progress: Progress) -> str:
        if progress.tries >= TRIES:
            return "; solution() is open now"
        return "; hint() helps" if progress.hints == 0 else ""

    def _note(self, state: str, text: str) -> Note:
        return Note(state, text, self._rich)

    def _save(self) -> None:
        """Write what this session changed; what another notebook of the run has written meanwhile stays."""
        with _locked(self.path):
            self._progress = {**_read(self.path), **{name: self._progress[name] for name in self._changed}}
            entries = {name: asdict(entry) for name, entry in sorted(self._progress.items())}
            write_json(self.path, {"exercises": entries})


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One writer at a time; the system frees the lock when a kernel dies."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _judge(exercise: Exercise, answer: Any, given: Mapping[str, Any]) -> tuple[str, str]:
    """The state, and what to add to the exercise's name."""
    if answer is None:
        return "not attempted", f"\n{exercise.question}"
    if isinstance(answer, Skip):
        return "skipped", f" ({answer.why})"
    try:
        return ("right" if exercise.check(answer, **given) else "wrong"), ""
    except BackendError as error:
        return "skipped", f" ({error.what})"
    except MappingError as error:  # the planner's own words tell more than any of ours
        return "wrong", f"\n{error}"
    except Exception:  # any answer may be typed into a notebook; the checker need not foresee them
        kind = "this text cannot be read" if isinstance(answer, str) else f"this is of type {type(answer).__name__}"
        return "wrong", f": {kind}, the check expects {exercise.expects}"


def _wrapped(line: str) -> str:
    return textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)


def _read(path: Path) -> dict[str, Progress]:
    """The progress so far; a damaged file is put aside, aloud, and the session starts anew."""
    if not path.exists():
        return {}
    try:
        entries = read_json(path)["exercises"]
        return {str(name): _progress(entry) for name, entry in entries.items()}
    except (FileError, KeyError, TypeError, ValueError, AttributeError) as error:
        aside = path.replace(path.with_suffix(".damaged.json"))
        print(f"the progress file was damaged ({error!r}); it is kept as {aside.name}, and progress starts anew")
        return {}


def _progress(entry: dict[str, Any]) -> Progress:
    progress = Progress(**entry)
    if progress.state not in OUTCOMES or not all(isinstance(n, int) for n in (progress.tries, progress.hints)):
        raise ValueError(f"not a progress entry: {entry}")
    return progress
