"""Questions of notebook 06, several devices."""

from __future__ import annotations

import re

from mindport.exercises.exercise import Exercise, words

DIVIDES = {1, 3}  # 9 heads and 3 key/value heads


def _degrees(answer: object) -> set[int]:
    """`[1, 3]`, `{1, 3}` or "1 and 3"."""
    found = re.findall(r"\d+", answer) if isinstance(answer, str) else answer
    return {int(degree) for degree in found}  # type: ignore[attr-defined]


def _near(answer: float, right: float, share: float = 0.01) -> bool:
    return abs(float(answer) - right) <= share * right


EXERCISES = {
    "06.bubble": Exercise(
        question="A pipeline has 6 stages and takes 12 micro-batches a step. Which share of the step does a stage "
        "wait, in per cent?",
        check=lambda answer: _near(answer, 100 * 5 / 17, 0.02),
        hints=(
            "The last stage begins after 5 others, and the first one ends after 5 others.",
            "A step lasts 12 + 5 slots, and a stage works in 12 of them.",
        ),
        solution="(p − 1) / (m + p − 1) = 5/17 = 29 %. Beside the work itself it is (p − 1) / m = 5/12 = 42 %: two "
        "definitions that articles mix up. With two chunks of layers a stage it is 5/29 = 17 %.",
        expects="a number, per cent",
    ),
    "06.heads": Exercise(
        question="A model has 9 attention heads and 3 key/value heads, as SmolLM2-135M has. Over which numbers of "
        "devices can tensor parallelism split it, if no key/value head is to be copied? A list.",
        check=lambda answer: _degrees(answer) == DIVIDES,
        hints=(
            "Each device gets whole heads.",
            "The degree divides 9, and it divides 3: a key/value head goes with the queries that read it.",
        ),
        solution="1 and 3. 9 divides the heads, and would need each key/value head three times. Two devices, the usual "
        "first try, cannot split this model: 9 is odd. Data parallelism can.",
        expects="a list of whole numbers",
    ),
    "06.batch": Exercise(
        question="A run on 64 cards says dp 8, tp 4, pp 2, 2 samples a micro-batch, 16 micro-batches. How many samples "
        "does the optimizer see in a step?",
        check=lambda answer: float(answer) == 256,
        hints=(
            "Cards of one replica see the same samples.",
            "Only three of the six numbers count.",
        ),
        solution="8 · 2 · 16 = 256: replicas × samples × micro-batches. Tensor and pipeline parallelism split the "
        "model, not the batch. Whoever doubles dp and leaves the rest has doubled the batch, and needs another rate.",
        expects="a whole number",
    ),
    "06.zero": Exercise(
        question="A model of 7 billion parameters is trained with Adam in mixed precision: 2 bytes for a weight, 2 for "
        "its gradient, 12 for the float32 copy and the two moments. How many GB (10⁹ bytes) does a card hold of these "
        "with ZeRO-1 over 8 cards?",
        check=lambda answer: _near(answer, 7 * (4 + 12 / 8)),
        hints=("ZeRO-1 shares out the 12 bytes, and nothing else.", "A parameter costs 2 + 2 + 12/8 bytes on a card."),
        solution="7 · (4 + 12/8) = 38.5 GB; without ZeRO 7 · 16 = 112 GB, with ZeRO-2 26.25, with ZeRO-3 14. And no "
        "activation is counted yet.",
        expects="a number, GB",
    ),
    "06.same": Exercise(
        question="A run of dp1 with 8 rows a step is repeated as (a) dp2 with 4 rows on each process, (b) dp2 with 8 "
        "rows on each process, (c) dp2 with 4 rows on each process, both with the first 4 rows of the batch. Which one "
        "has the losses of the first run? A letter.",
        check=lambda answer: words(answer) & {"a", "b", "c"} == {"a"},
        hints=(
            "Which of them gives the optimizer the same 8 rows?",
            "(b) is another batch size. In (c) the processes agree with each other, and that proves nothing.",
        ),
        solution="(a). The mean over 8 rows is the mean of the two means over 4, so that the losses agree to rounding. "
        "(c) is the fault that hides best: nothing fails, both ranks log equal losses, and half of the data is never "
        "seen. Losses of ranks that are equal *before* they are averaged are a warning.",
        expects="a letter",
    ),
    "06.reduces": Exercise(
        question="Tensor parallelism splits a layer's attention and its MLP, each as a matrix by columns and then one "
        "by rows (Megatron-LM). How many all-reduces does a layer take in a training step, forward and backward?",
        check=lambda answer: float(answer) == 4,
        hints=(
            "After the matrix that is split by rows each device holds a summand of the output.",
            "And before the one split by columns: each device has a summand of the gradient of the input.",
        ),
        solution="4: attention and MLP take one forward, for the sum of the outputs, and one backward, for the "
        "gradient of their common input. Recomputing the layer adds the 2 of the forward pass. Each moves a "
        "micro-batch's hidden states, B·T·d values, and nothing can be computed meanwhile: this is why tensor "
        "parallelism stays inside a server.",
        expects="a whole number",
    ),
}
