"""Exercises: four outcomes, hints, the solution after three tries, and progress that outlives the session."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mindport.errors import BackendError, UsageError
from mindport.exercises import Exercise, Exercises, Skip
from mindport.exercises import registry as registry_module
from mindport.exercises.registry import MODULES, registry


def need_torch(_):
    raise BackendError("torch is not installed")


QUESTIONS = {
    "03.head_dim": Exercise(
        "How wide is a head?", lambda answer: int(answer) == 64, ("divide", "576 / 9"), "64: 576 / 9", "an integer"
    ),
    "03.ratio": Exercise("Which ratio?", lambda answer: answer["ours"] < 3, ("a", "b"), "under 3", "a dict"),
    "03.torch": Exercise("With torch?", need_torch, ("a", "b"), "c"),
}


def session(out, **options) -> Exercises:
    return Exercises(out, exercises=QUESTIONS, **options)


@pytest.mark.parametrize(
    ("answer", "state"),
    [(64, "right"), ("64", "right"), (63, "wrong"), (None, "not attempted"), (Skip("no time"), "skipped")],
)
def test_an_answer_is_judged(tmp_path, answer, state):
    note = session(tmp_path).check("03.head_dim", answer)
    assert note.state == state and f" {state}: 03.head_dim" in repr(note)
    assert json.loads((tmp_path / "progress.json").read_text())["exercises"]["03.head_dim"]["state"] == state


@pytest.mark.parametrize("answer", ["sixty", [64], object(), {}, np.arange(3), float("nan"), lambda: 64])
def test_an_answer_of_another_type_is_wrong_and_says_so(tmp_path, answer):
    note = session(tmp_path).check("03.head_dim", answer)
    assert note.state == "wrong"
    kind = "this text cannot be read" if isinstance(answer, str) else f"of type {type(answer).__name__}"
    assert f"{kind}, the check expects an integer" in note.text.replace("\n", " ")


def test_the_value_is_not_given_away(tmp_path):
    exercises = session(tmp_path)
    for answer in (63, "sixty", None, 64):
        assert "64" not in repr(exercises.check("03.head_dim", answer)).replace(repr(answer), "")
    assert "64" not in repr(exercises.question("03.head_dim")) + repr(exercises)


def test_a_missing_backend_skips_and_says_why(tmp_path):
    note = session(tmp_path).check("03.torch", 1)
    assert (note.state, note.text) == ("skipped", "03.torch (torch is not installed)")


def test_there_are_two_hints(tmp_path):
    exercises = session(tmp_path)
    texts = [exercises.hint("03.head_dim").text for _ in range(3)]
    assert texts == ["03.head_dim, hint 1 of 2\ndivide", *["03.head_dim, hint 2 of 2\n576 / 9"] * 2]


def test_the_solution_opens_after_three_tries(tmp_path):
    exercises = session(tmp_path)
    for left in (3, 2, 1):
        assert exercises.solution("03.head_dim").text.endswith(f"{left} to go")
        note = exercises.check("03.head_dim", 0)
    assert "solution() is open" in note.text
    assert exercises.solution("03.head_dim").text == "03.head_dim\n64: 576 / 9"


def test_answers_not_given_are_no_tries(tmp_path):
    exercises = session(tmp_path)
    for answer in (None, Skip("x"), None):
        exercises.check("03.head_dim", answer)
    assert exercises.solution("03.head_dim").state == "locked"


def test_the_solution_is_open_after_a_right_answer_and_to_an_instructor(tmp_path):
    exercises = session(tmp_path)
    exercises.check("03.head_dim", 64)
    assert exercises.solution("03.head_dim").state == "solution"
    assert session(tmp_path, instructor=True).solution("03.ratio").state == "solution"


def test_progress_outlives_the_session_and_right_stays_right(tmp_path):
    session(tmp_path).check("03.head_dim", 1)
    later = session(tmp_path)
    later.check("03.head_dim", 64)
    later.check("03.head_dim", 1)
    row = next(row for row in session(tmp_path).table().rows if row[0] == "03.head_dim")
    assert row == ("03.head_dim", "right", 3, 0)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"exercises": {"03.head_dim": 3}}', '{"exercises": {"03.head_dim": {"state": "won"}}}',
     '{"exercises": {"03.head_dim": {"tries": "many"}}}'],
)  # fmt: skip
def test_a_damaged_file_is_put_aside_aloud(tmp_path, capsys, text):
    (tmp_path / "progress.json").write_text(text)
    exercises = session(tmp_path)
    assert "was damaged" in capsys.readouterr().out
    assert (tmp_path / "progress.damaged.json").read_text() == text
    assert exercises.check("03.head_dim", 64).state == "right"


def test_headless_is_plain_text_and_interactive_is_html(tmp_path):
    assert session(tmp_path).check("03.head_dim", 64)._repr_html_() is None
    assert session(tmp_path)._repr_html_() is None
    note = session(tmp_path, interactive=True).check("03.ratio", Skip("<script>"))
    assert "&lt;script&gt;" in note._repr_html_() and "<script>" not in note._repr_html_()
    assert "<table" in session(tmp_path, interactive=True)._repr_html_()


def test_an_unknown_exercise_names_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match=r"03\.head_dim"):
        session(tmp_path).check("03.headdim", 1)


def test_the_questions_of_the_notebooks_are_well_formed():
    for name, exercise in registry().items():
        assert name[:2] in {module[-2:] for module in MODULES}
        assert exercise.question and exercise.solution and len(exercise.hints) == 2 and all(exercise.hints)


def test_an_open_exercise_shows_its_question(tmp_path):
    assert session(tmp_path).check("03.head_dim", None).text == "03.head_dim\nHow wide is a head?"


def test_a_plain_note_wraps_between_words(tmp_path):
    long = "a version specifier that keeps 1.26.4 and refuses " * 5 + "x" * 120
    note = Exercises(tmp_path, exercises={"00.a": Exercise(long, bool, ("a", "b"), "c")}).question("00.a")
    lines = repr(note).splitlines()
    assert max(map(len, lines[:-1])) <= 90 and lines[-1] == "x" * 120
    assert " ".join(lines) == f"· question: 00.a {long}"


def test_a_step_without_its_file_is_an_error(monkeypatch):
    monkeypatch.setattr(registry_module, "MODULES", (*MODULES, "step_99"))
    with pytest.raises(ModuleNotFoundError, match="step_99"):
        registry()


def test_a_question_of_another_step_is_refused():
    with pytest.raises(UsageError, match="named after its step"):
        registry_module._checked("step_01", {"02.x": QUESTIONS["03.ratio"]})


def test_two_open_notebooks_keep_each_others_progress(tmp_path):
    exercise = Exercise("?", lambda answer: answer == 1, ("a", "b"), "1")
    questions = {"00.a": exercise, "01.b": exercise}
    first, second = Exercises(tmp_path, exercises=questions), Exercises(tmp_path, exercises=questions)
    first.check("00.a", 1)
    second.check("01.b", 2)
    first.hint("00.a")
    states = {row[0]: row[1] for row in Exercises(tmp_path, exercises=questions).table().rows}
    assert states == {"00.a": "right", "01.b": "wrong"}
