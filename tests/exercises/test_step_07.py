"""The questions of notebook 07: sensible spellings of the answer are right, and what is near it is wrong."""

import pytest

from mindport.exercises import Exercises, step_07

RIGHT = {"07.amdahl": [1.25, "1.25"], "07.share": [2.85, "2.9", 2.852], "07.buckets": [8, "8"]}
WRONG = {"07.amdahl": [3, 1.43, 0.8, "much"], "07.share": [2.33, 0.35, 16, "28 %"], "07.buckets": [2048, 7, 256, "few"]}


def test_every_question_is_tried_both_ways():
    assert RIGHT.keys() == WRONG.keys() == step_07.EXERCISES.keys()


@pytest.mark.parametrize(
    ("name", "answer", "state"),
    [(name, answer, state) for state, cases in (("right", RIGHT), ("wrong", WRONG))
     for name, answers in cases.items() for answer in answers],
)  # fmt: skip
def test_an_answer_is_judged(tmp_path, name, answer, state):
    assert Exercises(tmp_path).check(name, answer).state == state
