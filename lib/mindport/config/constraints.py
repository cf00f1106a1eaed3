"""What must hold between the values of a configuration, and what a device or a layout asks of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mindport.config.model_config import ModelConfig, Rope
from mindport.config.vocabulary import Vocabulary
from mindport.tables import Table


@dataclass(frozen=True)
class Constraint:
    """One rule with its outcome; a warning does not stop."""

    name: str
    state: Literal["pass", "warning", "failed"]
    got: str
    expected: str
    do: str = ""

    @property
    def ok(self) -> bool:
        return self.state != "failed"


def constraints(config: ModelConfig, vocabulary: Vocabulary, raw: Mapping[str, Any]) -> tuple[Constraint, ...]:
    """Every rule for this configuration: heads, vocabulary, special tokens."""
    return (*_heads(config, raw), *_vocabulary(config, vocabulary), *_tokens(config, vocabulary))


def tensor_parallel(config: ModelConfig, degree: int, *, whole_vocabulary: bool = False) -> Constraint:
    """Whether attention heads, the MLP and the vocabulary can be split over `degree` ranks.

    Args:
        config: the model.
        degree: so many ranks.
        whole_vocabulary: a vocabulary that does not divide may be held whole by every rank, as our own model does;
            MindSpore Transformers splits the head always.
    """
    sizes = {
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "intermediate_size": config.intermediate_size,
    }
    if not whole_vocabulary:
        sizes["rows of the vocabulary"] = config.vocab_rows
    uneven = [f"{name} {size}" for name, size in sizes.items() if size % degree]
    return _rule(f"tensor parallel {degree}", not uneven, ", ".join(uneven) or "all divide",
                 f"multiples of {degree}", "choose a degree that divides them all")  # fmt: skip


def pipeline(config: ModelConfig, stages: int) -> Constraint:
    """Whether the layers fill `stages` pipeline stages."""
    layers = config.num_hidden_layers
    return _rule(f"pipeline {stages}", stages <= layers, f"{layers} layers", f"at least {stages}", "use fewer stages")


def fused_attention(config: ModelConfig) -> Constraint:
    """What Ascend's flash_attention_score asks of a head (its documentation; not run here)."""
    fits = config.head_dim % 16 == 0 and config.head_dim <= 512
    return Constraint("head_dim for Ascend's fused attention", "pass" if fits else "warning", str(config.head_dim),
                      "a multiple of 16, at most 512", "" if fits else "the reference path is taken")  # fmt: skip


def layout_table(config: ModelConfig, degrees: tuple[int, ...] = (1, 2, 3, 4, 8)) -> Table:
    """Tensor and pipeline parallelism by degree: what fits and what does not."""
    rows = [rule(config, degree) for rule in (tensor_parallel, pipeline) for degree in degrees]
    return Table("Which layouts fit", ("layout", "state", "got", "expected"),
                 [(c.name, c.state, c.got, c.expected) for c in [*rows, fused_attention(config)]])  # fmt: skip


def _rule(name: str, holds: bool, got: object, expected: str, do: str) -> Constraint:
    return Constraint(name, "pass" if holds else "failed", str(got), expected, "" if holds else do)


def _heads(config: ModelConfig, raw: Mapping[str, Any]) -> list[Constraint]:
    heads, kv, hidden = config.num_attention_heads, config.num_key_value_heads, config.hidden_size
    rows = [_rule("query heads share key/value heads evenly", heads % kv == 0, f"{heads} heads, {kv} kv heads",
                  "heads a multiple of kv heads", "one of the two numbers is wrong")]  # fmt: skip
    if raw.get("head_dim") is None:
        rows.append(_rule("heads fill hidden_size", hidden % heads == 0, f"{hidden} / {heads}", "no remainder",
                          "one of the two is wrong, or head_dim is missing"))  # fmt: skip
    if config.position == "rope":
        pairs = config.rotated % 2 == 0 and 0 < config.rotated <= config.head_dim
        rows.append(_rule("rotary positions turn pairs", pairs,
                          f"{config.rotated} of {config.head_dim} dimensions", "an even number",
                          "rotary embedding needs an even number of rotated dimensions"))  # fmt: skip
    if config.rope is not None:
        rows += _scaling(config, config.rope)
    return [*rows, fused_attention(config)]


def _scaling(config: ModelConfig, rope: Rope) -> list[Constraint]:
    rows, half = [], config.rotated // 2
    if rope.rope_type == "dynamic":
        rows.append(_rule("dynamic rotary positions have a base", half > 1, f"{config.rotated} rotated dimensions",
                          "more than 2", "the base is stretched by the power d / (d - 2)"))  # fmt: skip
    if rope.short_factor and rope.long_factor:
        short, long = len(rope.short_factor), len(rope.long_factor)
        rows.append(_rule("each pair has two factors", short == long == half, f"{short} short, {long} long",
                          str(half), "one of the lists is wrong"))  # fmt: skip
    return rows


def _vocabulary(config: ModelConfig, found: Vocabulary) -> list[Constraint]:
    size, rows = config.vocab_size, []
    if found.tokenizer is not None:
        rows.append(_rule("every token of the tokenizer has a row", found.tokenizer <= size,
                          f"tokenizer {found.tokenizer}", f"at most vocab_size {size}",
                          "the tokenizer belongs to another model"))  # fmt: skip
    if config.padded_vocab is not None:
        rows.append(_rule("padding comes after the vocabulary", config.padded_vocab >= size,
                          f"padded_vocab {config.padded_vocab}", f"at least vocab_size {size}",
                          "declare the rows of the embedding"))  # fmt: skip
    if found.embedding is not None:
        wanted = "vocab_size" if config.padded_vocab is None else "padded_vocab"
        rows.append(_rule(f"the embedding has {wanted} rows", found.embedding == config.vocab_rows,
                          f"{found.embedding} rows", f"{wanted} {config.vocab_rows}",
                          _declaration(size, found.embedding)))  # fmt: skip
    return rows


def _declaration(size: int, rows: int) -> str:
    """What to do about an embedding of so many rows."""
    if rows == size:
        return "it is not padded: leave out --padded-vocab"
    if rows < size:
        return "set vocab_size to the rows of the embedding"
    return f"if the last {rows - size} are padding, declare it: --padded-vocab {rows}; if tokens, set vocab_size {rows}"


def _tokens(config: ModelConfig, vocabulary: Vocabulary) -> list[Constraint]:
    rows = []
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        value = getattr(config, name)
        ids = value if isinstance(value, tuple) else (value,) if value is not None else ()
        if ids:
            known = max(ids) < config.vocab_size
            rows.append(Constraint(f"{name} is a token", "pass" if known else "warning", str(value),
                                   f"below vocab_size {config.vocab_size}",
                                   "" if known else "no weight depends on it; generation stops elsewhere"))  # fmt: skip
    if vocabulary.pad is not None and config.pad_token_id is not None:
        same = vocabulary.pad == config.pad_token_id
        rows.append(Constraint("tokenizer and config pad alike", "pass" if same else "warning", str(vocabulary.pad),
                               f"pad_token_id {config.pad_token_id}",
                               "" if same else "mask by the tokenizer's id"))  # fmt: skip
    return rows
