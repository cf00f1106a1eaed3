"""Each counterpart called for once, in one process that is started again where an operator ends it."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mindport.coverage import child
from mindport.coverage.table import Operator
from mindport.errors import BackendError

SCRIPT = "mindport.coverage.scripts.probe"
KINDS = ("ms", "instead", "naive")
NEEDED = ("torch", "mindspore")
SECONDS = 60.0  # for one attempt
ALL = 3600.0  # seconds for all of them, should the process hang outside an attempt
State = Literal["runs", "wrong value", "wrong gradient", "no gradient", "no kernel", "fails", "crashes", "absent"]


@dataclass(frozen=True)
class Outcome:
    """What one expression did here.

    Attributes:
        state: `runs` when value and gradient equal torch's.
        says: the error, or how far off it is.
        value: the largest difference of the value, relative to the largest one.
        gradient: that of the gradient; None where there is nothing to differentiate.
    """

    state: State
    says: str = ""
    value: float | None = None
    gradient: float | None = None

    @property
    def runs(self) -> bool:
        return self.state == "runs"


@dataclass(frozen=True)
class Tried:
    """An operator's expressions, each with its outcome; None where the table has none."""

    ms: Outcome
    instead: Outcome | None = None
    naive: Outcome | None = None


@dataclass(frozen=True)
class Found:
    """A name that the table lacks: whether torch has it, and what MindSpore has of the same name."""

    torch: bool
    mindspore: tuple[str, ...]


@dataclass(frozen=True)
class Answers:
    """All of one run."""

    device: str
    operators: dict[str, Tried]
    names: dict[str, Found]


def probe(operators: Sequence[Operator], names: Sequence[str] = (), *, seconds: float = SECONDS) -> Answers:
    """Try operators of the table, and look up names that it lacks.

    Args:
        operators: rows of the table.
        names: torch names, in full.
        seconds: for one attempt; what takes longer is ended, and the rest goes on.

    Raises:
        BackendError: a framework is missing, or cannot even be imported.
    """
    _needed()
    tasks = [_task(o, kind) for o in operators for kind in KINDS if getattr(o, kind)]
    tasks += [{"key": f"{o.name}/ms", "name": o.names[0]} for o in operators if not o.ms]
    tasks += [{"key": name, "name": name} for name in names]
    tasks = [{**task, "seconds": seconds} for task in tasks]
    device, answers = _run(tasks)
    if again := [task for task in tasks if _is_doubtful(task, answers)]:
        answers |= {key: answer for key, answer in _run(again)[1].items() if answer["state"] == "runs"}
    return Answers(
        device,
        {o.name: Tried(*(_outcome(answers.get(f"{o.name}/{kind}")) for kind in KINDS)) for o in operators},  # type: ignore[arg-type]
        {name: Found(answers[name]["torch"], tuple(answers[name]["mindspore"])) for name in names},
    )


def _task(operator: Operator, kind: str) -> dict[str, Any]:
    return {"key": f"{operator.name}/{kind}", "torch": operator.torch, "attempt": getattr(operator, kind),
            "tolerance": operator.tolerance}  # fmt: skip


def _is_doubtful(task: dict[str, Any], answers: dict[str, Any]) -> bool:
    """Whether it may be another operator's fault, and is to be tried again without those that ran.

    Some kernels keep what an earlier call told them: `ops.searchsorted` its first output type, and then refuses others.
    """
    state = answers[task["key"]].get("state")
    return not task["key"].endswith("/naive") and state in ("fails", "no gradient", "wrong value", "wrong gradient")


def _run(tasks: Sequence[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The device and the answers by key; after each death the tasks that are left go on in a new process."""
    answers: dict[str, Any] = {}
    device = ""
    with tempfile.TemporaryDirectory(prefix="mindport-coverage-") as name:
        folder = Path(name)
        while left := [task for task in tasks if task["key"] not in answers]:
            (folder / "tasks").write_text(json.dumps(left), encoding="utf-8")
            (folder / "answers").write_text("", encoding="utf-8")
            ended = child.run(SCRIPT, "tasks", "answers", timeout=ALL, folder=folder)
            lines = _lines(folder / "answers")
            if not lines:
                raise BackendError("the operators cannot be tried", got=ended.reason(), do="`mindport doctor` says why")
            device = lines[0]["device"]
            answers |= {line.pop("key"): line for line in lines[1:]}
            if guilty := [task for task in left if task["key"] not in answers][:1]:
                answers[guilty[0]["key"]] = {
                    "state": "crashes",
                    "says": ended.reason(),
                    "torch": False,
                    "mindspore": [],
                }
    return device, answers


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines; a process that died may have left half of one."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def _outcome(answer: dict[str, Any] | None) -> Outcome | None:
    if answer is None:
        return None
    if "state" in answer:
        return Outcome(**{key: value for key, value in answer.items() if key in Outcome.__dataclass_fields__})
    same = answer["mindspore"]
    return Outcome("absent", f"untried: {', '.join(same)}" if same else "nothing of that name")


def _needed() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise BackendError("operators are tried, and held to torch's", got=f"not installed: {', '.join(missing)}",
                           do=f"pip install {' '.join(missing)}; `mindport coverage --list` needs neither")  # fmt: skip
