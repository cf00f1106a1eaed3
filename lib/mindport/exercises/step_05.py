"""Questions of notebook 05, training."""

from __future__ import annotations

from mindport.exercises.exercise import Exercise, words

EXERCISES = {
    "05.warmup": Exercise(
        question="A run has lr 1e-3, a warm-up of 10 steps, and a linear schedule down to 0 at step 110. With which "
        "rate is step 61 taken, the one after 60 steps?",
        check=lambda answer: abs(float(answer) - 5e-4) < 1e-6,
        hints=(
            "After 10 steps the rate is 1e-3; 100 steps later it is 0.",
            "50 of these 100 steps are taken.",
        ),
        solution="1e-3 · (110 − 60) / (110 − 10) = 5e-4. The first step of all has rate 0: a schedule counts the steps "
        "that were *taken*. One that is off by one shows in the first step already.",
        expects="a number",
    ),
    "05.tokens": Exercise(
        question="A step takes two batches. In the first 900 tokens count, and their mean loss is 2.0; in the second "
        "100 count, and their mean is 4.0. What is the loss of the step?",
        check=lambda answer: abs(float(answer) - 2.2) < 1e-6,
        hints=("One token weighs as much as any other.", "The sum over all tokens is 900 · 2.0 + 100 · 4.0."),
        solution="(900 · 2.0 + 100 · 4.0) / 1000 = 2.2. The mean of the means says 3.0, and its gradient pulls nine "
        "times as hard at each token of the short batch.",
        expects="a number",
    ),
    "05.scale": Exercise(
        question="A loss scale is 65536 and doubles after 100 good steps. Steps 1 and 2 overflow, then 250 steps are "
        "good. What is it after them?",
        check=lambda answer: float(answer) == 65536,
        hints=("Each overflow halves it.", "It was halved twice, and doubled after 100 and after 200 good steps."),
        solution="65536 / 4 · 4 = 65536. And the optimizer has counted 250 steps, not 252: what overflowed moves "
        "nothing.",
        expects="a whole number",
    ),
    "05.resume": Exercise(
        question="A resumed run begins with the right loss, and from its second step on it is a little above the run "
        "in one piece, for some hundred steps. Text, rate and weights are right. What was not saved? One word will do.",
        check=lambda answer: bool(
            words(answer) & {"optimizer", "adam", "adamw", "means", "moments", "momentum", "momenta", "m", "v", "state"}
        ),
        hints=(
            "The first loss depends on weights and batch only; the second also on how the weights moved.",
            "AdamW moves a weight by two means that it has gathered over many steps.",
        ),
        solution="The optimizer's state. Its means begin at zero again, and so does the count of its bias correction: "
        "the steps are of another size until they have filled up. The loss looks plausible all the while.",
        expects="a word",
    ),
}
