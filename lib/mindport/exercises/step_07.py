"""Questions of notebook 07, tuning."""

from __future__ import annotations

from mindport.exercises.exercise import Exercise
from mindport.tuning.arithmetic import time_ratio

EXERCISES = {
    "07.amdahl": Exercise(
        question="Attention takes 30 % of a step. A new kernel computes it three times as fast, everything else stays. "
        "By which factor does the step get faster?",
        check=lambda answer: abs(float(answer) - 1 / (0.7 + 0.3 / 3)) < 0.01,
        hints=(
            "The other 70 % take as long as before.",
            "The new step takes 0.7 + 0.3 / 3 of the old one's time.",
        ),
        solution="1 / (0.7 + 0.1) = 1.25. Even attention that took no time at all would give 1 / 0.7 = 1.43: look at "
        "the shares before you optimise (Amdahl's law).",
        expects="a number",
    ),
    "07.share": Exercise(
        question="An article replaces GELU by a “fast” one, and shows as proof that its share of the step's time went "
        "from 12 % to 28 %. Everything else stayed. How many times as long does the new GELU take?",
        check=lambda answer: abs(float(answer) - time_ratio(0.12, 0.28)) < 0.06,
        hints=(
            "Everything else took 88 parts before, and takes 72 of the new whole.",
            "GELU over everything else: 0.12 / 0.88 before, 0.28 / 0.72 now.",
        ),
        solution="(0.28 / 0.72) / (0.12 / 0.88) = 2.85 times as long: a larger share is a slower part. Shares compare "
        "parts of one run; compare runs by their times.",
        expects="a number",
    ),
    "07.buckets": Exercise(
        question="Texts have every length from 1 to 2,048 tokens. You pad each to the next multiple of 256. How many "
        "graphs are compiled at most?",
        check=lambda answer: float(answer) == 2048 / 256,
        hints=("A graph is compiled for each different shape.", "The padded lengths are 256, 512, …, 2,048."),
        solution="2,048 / 256 = 8, instead of up to 2,048. Each costs seconds, once; what is paid for it is padding, "
        "up to 255 tokens a text.",
        expects="a whole number",
    ),
}
