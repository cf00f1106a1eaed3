"""Questions of notebook 01, config mapping."""

from __future__ import annotations

from mindport.exercises.exercise import Exercise, words

EXERCISES = {
    "01.head_dim": Exercise(
        question="A config.json says hidden_size 5120, num_attention_heads 32 and head_dim 128. "
        "How many rows has the weight of q_proj (its shape is [rows, hidden_size])?",
        check=lambda answer: float(answer) == 32 * 128,
        hints=("head_dim is given, so hidden_size / heads plays no part.", "q has head_dim rows for each query head."),
        solution="32 · 128 = 4096, although hidden_size is 5120 and 5120 / 32 would be 160 (Mistral-Nemo is built so).",
        expects="a whole number",
    ),
    "01.kv_cache": Exercise(
        question="By which factor does the KV cache shrink when 9 query heads share 3 key/value heads, "
        "against 9 key/value heads?",
        check=lambda answer: abs(float(answer) - 3) < 1e-9,
        hints=("The cache holds k and v of each key/value head.", "It is proportional to num_key_value_heads."),
        solution="9 / 3 = 3: the cache holds k and v for each key/value head, not for each query head.",
        expects="a number",
    ),
    "01.unknown": Exercise(
        question="A config.json has a key x_gate that no table knows, and num_local_experts 8, which is refused. "
        "You allow both by name. Which of the two still stops the conversion?",
        check=lambda answer: (
            bool(words(answer) & {"num_local_experts", "experts", "refused"}) and not words(answer) & {"x_gate", "both"}
        ),
        hints=(
            "One of them is unknown to MindPort, the other is known very well.",
            "You may vouch that a key changes nothing. You cannot vouch for a computation that is not there.",
        ),
        solution="num_local_experts. Unknown means: nobody here knows what the key does, you may. Refused means: it is "
        "known to change the computation, in a way that this model does not compute; no permission adds that.",
        expects="the name of a key, as text",
    ),
}
