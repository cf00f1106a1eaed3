"""How a config.json value becomes a field's value; each raises `ValueError` with what would be right.

A number written as text ("12") is none to them; `number` is what lets it through, and the report says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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
LARGEST = 2**31 - 1  # what an index of 32 bits reaches
LAYERS = 10_000  # the deepest published models have some hundreds


def number(text: str, read: Callable[[Any], Any]) -> int | float | None:
    """The number that `text` writes and `read` takes; None when there is none, or `read` takes the text itself."""
    if _takes(read, text):
        return None
    for kind in (int, float):
        try:
            value = kind(text) if text.isascii() and "_" not in text else None
            return value if value is not None and read(value) is not None else None
        except ValueError:
            continue
    return None


def _takes(read: Callable[[Any], Any], value: Any) -> bool:
    """Whether a reader accepts a value as it is."""
    try:
        read(value)
    except ValueError:
        return False
    return True


def positive_int(value: Any) -> int:
    """A whole number above zero that an index can reach."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST:
        raise ValueError(f"a positive whole number, at most {LARGEST:,}")
    return value


def layer_count(value: Any) -> int:
    """A number of layers; names are made for each, so that a mistyped one must not come through."""
    if positive_int(value) > LAYERS:
        raise ValueError(f"at most {LAYERS:,} layers")
    return value


def whole_number(value: Any) -> int:
    """A whole number from zero."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a whole number from 0")
    return value


def positive_float(value: Any) -> float:
    """A finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= sys.float_info.max:
        raise ValueError("a positive number")
    return float(value)


def positive_floats(value: Any) -> tuple[float, ...]:
    """A list of finite numbers above zero."""
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError("a list of positive numbers")
    return tuple(map(positive_float, value))


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


def padding_id(value: Any) -> int | None:
    """A token's number; -1, which early LLaMA exports write, is none."""
    return None if value == -1 and not isinstance(value, bool) else token_id(value)


def token_ids(value: Any) -> int | tuple[int, ...]:
    """A token's number, or a list of them (several end-of-text tokens)."""
    return tuple(token_id(item) for item in value) if isinstance(value, list) else token_id(value)


def dtype(value: Any) -> str:
    """float32, float16 or bfloat16, with or without "torch."."""
    name = value.removeprefix("torch.") if isinstance(value, str) else value
    if name not in DTYPES:
        raise ValueError("one of " + ", ".join(DTYPES))
    return name
