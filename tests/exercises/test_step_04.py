"""Hidden faults: the right name is right, whatever its seed; near names are wrong; and the hints are true."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindport.debug import find_nonfinite, plant_hidden, smoke_run
from mindport.debug.hidden import SILENT
from mindport.debug.modes import mode
from mindport.errors import UsageError
from mindport.exercises import Exercises, step_04

SEEDS = range(6)
LEVELS = {"04.module": 1, "04.learns": 2, "04.silent": 3}


@pytest.fixture(autouse=True)
def _pynative():
    with mode(ms.PYNATIVE_MODE):
        yield


def silent(kind):
    """The first puzzle of level 3 with this fault."""
    return next(p for seed in range(40) if (p := plant_hidden(seed, level=3)).answer == kind)


def test_there_is_a_level_for_each_question():
    assert LEVELS.keys() == step_04.EXERCISES.keys()
    with pytest.raises(UsageError, match="no such level"):
        plant_hidden(0, level=4)


def test_a_seed_is_a_fault_and_does_not_show_it():
    for level in LEVELS.values():
        answers = [plant_hidden(seed, level).answer for seed in SEEDS]
        assert answers == [plant_hidden(seed, level).answer for seed in SEEDS]
        assert len(set(answers)) > 1
        assert answers[0] not in repr(plant_hidden(0, level))


@pytest.mark.parametrize("name", LEVELS)
def test_only_the_right_name_is_right(tmp_path, name):
    puzzle, exercises = plant_hidden(2, LEVELS[name]), Exercises(tmp_path)
    others = {plant_hidden(seed, LEVELS[name]).answer for seed in range(12)} - {puzzle.answer}
    for wrong in (*others, "blocks", "", "everything", "mask, shift or positions", 3, ["mask"]):
        assert exercises.check(name, wrong, puzzle=puzzle).state == "wrong", wrong
    assert exercises.check(name, None, puzzle=puzzle).state == "not attempted"
    assert exercises.check(name, f" {puzzle.answer} ", puzzle=puzzle).state == "right"


def test_the_solution_opens_after_three_tries_and_names_the_fault(tmp_path):
    for name, level in LEVELS.items():
        puzzle, exercises = plant_hidden(2, level), Exercises(tmp_path / name)
        for _ in range(3):
            assert exercises.solution(name, puzzle=puzzle).state == "locked"
            exercises.check(name, "nothing", puzzle=puzzle)
        note = exercises.solution(name, puzzle=puzzle)
        assert note.state == "solution" and puzzle.answer in note.text


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tool_of_the_first_hint_names_the_module(tmp_path, seed):
    puzzle = plant_hidden(seed, level=1)
    found = find_nonfinite(puzzle.loss, *puzzle.batch)
    assert Exercises(tmp_path).check("04.module", found.module, puzzle=puzzle).state == "right", found.text()


def test_the_second_fault_leaves_the_loss_sound_and_a_cell_without_gradient():
    puzzle = plant_hidden(2, level=2)
    assert find_nonfinite(puzzle.loss, *puzzle.batch).ok
    run = smoke_run(puzzle.model, steps=3)
    assert run.losses[-1] < run.losses[0]
    cell = dict(puzzle.model.cells_and_names())[puzzle.answer]
    assert {weight.name for weight in cell.trainable_params()} <= set(run.without)


@pytest.mark.parametrize("kind", SILENT)
def test_the_experiments_of_the_hints_decide(kind):
    puzzle = silent(kind)
    ids = puzzle.batch[0].asnumpy()
    last, swapped = ids.copy(), ids.copy()
    last[:, -1] = (last[:, -1] + 1) % 768
    swapped[:, [1, 2]] = swapped[:, [2, 1]]
    plain, future = (puzzle.model(Tensor(each)).asnumpy() for each in (ids, last))
    assert (np.abs(plain - future)[:, 0].max() > 1e-5) == (kind == "mask")
    right, other = (after_first_layer(puzzle, each)[:, -1] for each in (ids, swapped))
    assert (np.abs(right - other).max() < 1e-6) == (kind == "positions")
    assert (scored_by(puzzle, plain) == 5) == (kind == "shift")


def after_first_layer(puzzle, ids):
    seen = []
    handle = puzzle.model.blocks[0].register_forward_hook(lambda cell, args, output: seen.append(output.asnumpy()))
    puzzle.model(Tensor(ids))
    handle.remove()
    return seen[0]


def scored_by(puzzle, logits, at=5):
    """The position whose logits a single label at `at` is scored by."""
    ids = puzzle.batch[0].asnumpy()
    labels = np.full_like(ids, -100)
    labels[:, at] = ids[:, at]
    loss = float(puzzle.loss(Tensor(ids), Tensor(labels)))
    rows = np.arange(len(ids))

    def score(t):
        return np.mean(np.log(np.exp(logits[:, t]).sum(-1)) - logits[rows, t, ids[:, at]])

    return min((at - 1, at), key=lambda t: abs(score(t) - loss))
