import pytest

from mindport.exercises import Exercises
from mindport.exercises.step_00 import EXERCISES

RIGHT = {
    "00.numpy": ["<2", ">=1.26,<2", "<2.0.0", "==1.26.4", "numpy<2", "numpy >=1.26,<2"],
    "00.pair": ["2.7.2"],
    "00.devices": ["1,3", "1, 3"],
    "00.sync": ["sync", "Sync.", "the next sync"],
}
WRONG = {
    "00.numpy": ["<3", ">=2", "<1.26", "<=2.0", ">=1.25", "", "two", 2],
    "00.pair": ["2.7.1", "2.10.0", 2.7, "8.5.0"],
    "00.devices": ["3,1", "3, 1", "1", "0,1,3", 13],
    "00.sync": ["call", "call, not sync", "", 1],
}


def state(folder, name, answer):
    return Exercises(folder).check(name, answer).state


def test_every_question_is_tried_both_ways():
    assert RIGHT.keys() == WRONG.keys() == EXERCISES.keys()


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in RIGHT.items() for answer in answers])
def test_right_answers(tmp_path, name, answer):
    assert state(tmp_path, name, answer) == "right"


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, answers in WRONG.items() for answer in answers])
def test_wrong_answers(tmp_path, name, answer):
    assert state(tmp_path, name, answer) == "wrong"
