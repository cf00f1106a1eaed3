"""Questions of notebook 04: a fault that a seed has hidden; the answer is a name, and only the right one counts."""

from __future__ import annotations

from typing import Any

from mindport.exercises.exercise import Exercise, words

SILENT = {"mask": {"mask"}, "shift": {"shift", "labels"}, "positions": {"positions", "position", "rope", "rotary"}}

SHOWN_BY = {
    "mask": "The logits of the first position move when the last token changes.",
    "positions": "What the first layer gives at the last position does not move when two earlier tokens change places.",
    "shift": "With one label left at position t, the loss is that of the logits at t, not at t - 1.",
}


def _module(answer: str, puzzle: Any) -> bool:
    """The module by its name in the model, or in the loss around it, or by the kernel inside it."""
    name = answer.strip().removeprefix("model.")
    return name == puzzle.answer or name.startswith(f"{puzzle.answer}.")


def _cell(answer: str, puzzle: Any) -> bool:
    return answer.strip().removeprefix("model.") == puzzle.answer


def _silent(answer: str, puzzle: Any) -> bool:
    """One of the three kinds is named, and it is the right one."""
    named = [kind for kind, names in SILENT.items() if words(answer) & names]
    return named == [puzzle.answer]


EXERCISES = {
    "04.module": Exercise(
        question="The loss of puzzle.loss(*puzzle.batch) is not finite. Which module makes the first value that is "
        "not? Its whole name, as in blocks.0.norm1.",
        check=_module,
        hints=(
            "Do not look at the loss, look at where it begins: there is a tool that runs a step and names the module.",
            "debug.find_nonfinite(puzzle.loss, *puzzle.batch), and read the first line of what it says.",
        ),
        solution=lambda puzzle: (
            f"{puzzle.answer}: an entry of its weight is enormous, and its products overflow float32. "
            "Everything after it inherits the infinity."
        ),
        expects="the name of a module",
    ),
    "04.learns": Exercise(
        question="The loss of the second puzzle is finite, and falls. One part of one layer does not learn. Which? "
        "Its name, as in blocks.0.attn.",
        check=_cell,
        hints=(
            "What does not learn gets no gradient, though its values are right: look at the gradients by parameter.",
            "debug.smoke_run(puzzle.model) lists the parameters that no gradient reaches; which cell holds them all?",
        ),
        solution=lambda puzzle: (
            f"{puzzle.answer}: its output is detached (stop_gradient), so nothing flows back into "
            "it; the layer's other path hides that from the loss."
        ),
        expects="the name of a cell",
    ),
    "04.silent": Exercise(
        question="Everything is finite and everything learns, and the third model is a wrong one. Which is it: its "
        "mask (it sees the future), its positions (it does not know the order), or the shift (its labels are not the "
        "next token)?",
        check=_silent,
        hints=(
            "Change one thing and see what moves: the last token must not change earlier logits; two early tokens that "
            "change places must change what the first layer gives at the last position (a hook on blocks.0 shows it).",
            "If the model keeps to both, it is the loss: set all labels but one to -100, and see whether it is scored "
            "by the logits of the token before, or by its own.",
        ),
        solution=lambda puzzle: f"The {puzzle.answer}. {SHOWN_BY[puzzle.answer]}",
        expects="one word: mask, positions or shift",
    ),
}
