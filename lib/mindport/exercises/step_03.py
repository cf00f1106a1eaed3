"""Questions of notebook 03, layer parity."""

from __future__ import annotations

from mindport.exercises.exercise import Exercise, words

EXERCISES = {
    "03.local": Exercise(
        question="In the whole model, everything from blocks.7.attn.v on is wrong. Each cell alone, on the reference's "
        "own input, is right except blocks.7.attn.v. How many cells have a fault?",
        check=lambda answer: float(answer) == 1,
        hints=("A cell that is right on the right input has no fault.", "The others inherited theirs."),
        solution="One. The others compute rightly what they are given; mend blocks.7.attn.v and they are right.",
        expects="a whole number",
    ),
    "03.sign": Exercise(
        question="Attention's output is right at position 0 and wrong from position 1 on, a little more at each. "
        "Norms, q, k and v are right. Which part of attention would you open first: mask, rope or softmax?",
        check=lambda answer: (
            bool(words(answer) & {"rope", "rotary", "positions"}) and not words(answer) & {"mask", "softmax"}
        ),
        hints=(
            "A missing mask is wrong at position 0 already, where everything is the future.",
            "The angle is position times frequency: at position 0 it is 0, whatever the frequency.",
        ),
        solution='"rope": at position 0 nothing is turned, so theta, scaling and layout cannot show there.',
        expects="a word",
    ),
    "03.ulp": Exercise(
        question="A residual stream holds values near 24,000. How far apart are neighbouring float32 numbers there "
        "(their fraction has 23 bits)?",
        check=lambda answer: 0.9 * 2**-9 <= float(answer) <= 1.1 * 2**-9,
        hints=("24,000 lies between 2^14 and 2^15.", "The step is 2^14 / 2^23."),
        solution="2^14 / 2^23 = 2^-9 ≈ 0.00195. An absolute limit of 1e-5 would be 200 times finer than float32 "
        "itself, so limits inside the model are relative to the largest value at the position.",
        expects="a number",
    ),
}
