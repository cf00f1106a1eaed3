"""The exercises of the notebooks: questions, checks, hints, and the learner's progress.

    exercises = Exercises(out, interactive=interactive)
    exercises.check("03.head_dim", answer)   # right, wrong, not attempted, or skipped (why)
    exercises.hint("03.head_dim")            # a nudge; called again, most of the way
    exercises.solution("03.head_dim")        # after three wrong tries, or for an instructor

The questions of a notebook live in `step_NN.py`, as `EXERCISES = {"NN.name": Exercise(...)}`.
"""

from mindport.exercises.exercise import Exercise, Skip
from mindport.exercises.session import Exercises, Note

__all__ = ["Exercise", "Exercises", "Note", "Skip"]
