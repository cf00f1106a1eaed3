"""How a config.json value becomes a field's value; each raises `ValueError` with what would be right.

A number written as text ("12") is a fault of the file that its writer should know of, so it is refused here.
"""

from __future__ import annotations

from typing import Any

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",  # the same polynomial with its constant written to ten digits
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
}
DTYPES = ("float32", "float16", "bfloat16")


def positive_int(value: Any) -> int:
    """A whole number above zero."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError("a positive whole number")
    return value


def whole_number(value: Any) -> int:
    """A whole number from zero."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a whole number from 0")
    return value


def positive_float(value: Any) -> float:
    """A finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError("a positive number")
    return float(value)


def probability(value: Any) -> float:
    """A number from 0 up to, not including, 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError("a probability: 0 ≤ p < 1")
    return float(value)


def boolean(value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def activation(value: Any) -> str:
    """One of Hugging Face's activation names that the model computes."""
    if not isinstance(value, str) or value not in ACTIVATIONS:
        raise ValueError("one of " + ", ".join(ACTIVATIONS))
    return ACTIVATIONS[value]


def token_id(value: Any) -> int:
    """A token's number."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a token id: a whole number from 0")
    return value


def token_ids(value: Any) -> int | tuple[int, ...]:
    """A token's number, or a list of them (several end-of-text tokens)."""
    return tuple(token_id(item) for item in value) if isinstance(value, list) else token_id(value)


def dtype(value: Any) -> str:
    """float32, float16 or bfloat16, with or without "torch."."""
    name = value.removeprefix("torch.") if isinstance(value, str) else value
    if name not in DTYPES:
        raise ValueError("one of " + ", ".join(DTYPES))
    return name
