"""The questions of notebook 06: sensible spellings of an answer are right, what is near it is wrong."""

from dataclasses import replace

import pytest

from mindport.exercises import Exercises, step_06
from mindport.mindformers import Layout
from mindport.parallel.plan import bubble, schedule, zero_memory
from mindport.parallel.plan.grid import as_grid
from mindport.parallel.plan.published import shaped
from mindport.parallel.plan.rules import legal
from tests.parallel.plan.models import job

RIGHT = {
    "06.bubble": [29.4, "29", 100 * 5 / 17],
    "06.heads": [[1, 3], {3, 1}, "1 and 3", (1, 3)],
    "06.batch": [256, "256"],
    "06.zero": [38.5, "38.5"],
    "06.same": ["a", "(a)", "A."],
    "06.reduces": [4, "4"],
}
WRONG = {
    "06.bubble": [41.7, 0.294, 17.2, 27.3, "a third"],
    "06.heads": [[1, 3, 9], [3], "2", 3, []],
    "06.batch": [64, 32, 512, 2048, "many"],
    "06.zero": [112, 26.25, 14, 38.5e9, "40 GB"],
    "06.same": ["b", "c", "a or c", "", 1],
    "06.reduces": [2, 6, 8, "four"],
}


def test_every_question_is_tried_both_ways():
    assert RIGHT.keys() == WRONG.keys() == step_06.EXERCISES.keys()


@pytest.mark.parametrize(
    ("name", "answer", "state"),
    [(name, answer, state) for state, cases in (("right", RIGHT), ("wrong", WRONG))
     for name, answers in cases.items() for answer in answers],
)  # fmt: skip
def test_an_answer_is_judged(tmp_path, name, answer, state):
    assert Exercises(tmp_path).check(name, answer).state == state


def test_the_solutions_are_what_the_planner_says():
    assert step_06.EXERCISES["06.bubble"].check(100 * bubble(6, 12))
    assert schedule(6, 12, 2).idle == pytest.approx(5 / 29)
    assert step_06.EXERCISES["06.zero"].check(sum(zero_memory(7, 8)[1].values()))
    smol = shaped(d=576, L=30, a=9, kv=3, f=1536, v=49152)
    it = job(devices=1)
    fits = [tp for tp in range(1, 10) if _legal(it, smol, tp)]
    assert step_06.EXERCISES["06.heads"].check(fits)


def _legal(it, model, tp):
    it = replace(it, model=model, devices=tp, host_size=tp)
    return bool(legal(it, as_grid(it, Layout(tp=tp)))[0][0])
