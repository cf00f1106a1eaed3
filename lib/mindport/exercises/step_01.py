"""Questions of notebook 01, config mapping."""

from __future__ import annotations

from mindport.exercises.exercise import Exercise

EXERCISES = {
    "01.head_dim": Exercise(
        question="A config.json says hidden_size 5120, num_attention_heads 32 and head_dim 128. "
        "How many rows has the weight of q_proj (its shape is [rows, hidden_size])?",
        check=lambda answer: int(answer) == 32 * 128,
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
        question="Your config.json has a key that no table knows. The conversion stops. Name the class of that key.",
        check=lambda answer: answer.strip().lower() == "unknown",
        hints=("There are five classes.", "It is neither mapped, derived, harmless nor refused."),
        solution='"unknown": it stops until you allow it by name, once you know what it does.',
        expects="a word",
    ),
}
