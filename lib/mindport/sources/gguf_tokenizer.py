"""The byte-level BPE tokenizer inside a GGUF file, as tokenizer.json and tokenizer_config.json."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.errors import ConfigError
from mindport.files import write_json

CONTROL, USER_DEFINED = 3, 4  # gguf.constants.TokenType
SPECIAL = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}


@dataclass(frozen=True)
class TokenizerFields:
    """What a GGUF file says about its tokenizer.

    Attributes:
        tokens: the vocabulary, by id, in the byte-level alphabet.
        types: GGUF's type of each token (3 is a control token).
        merges: the BPE merges in order, two pieces with a space between.
        pre: the name of the pre-tokenizer.
        special: "bos_token", … → the token's text.
        chat_template: the Jinja template, or None.
    """

    tokens: list[str]
    types: list[int]
    merges: list[str]
    pre: str
    special: dict[str, str]
    chat_template: str | None

    @classmethod
    def read(cls, fields: dict[str, Any]) -> TokenizerFields:
        """Pick the tokenizer out of all key-value pairs.

        Raises:
            ConfigError: it is not byte-level BPE, or it puts a token before every text.
        """
        ggml = {k.removeprefix("tokenizer.ggml."): v for k, v in fields.items() if k.startswith("tokenizer.ggml.")}
        if ggml.get("model") != "gpt2":
            raise ConfigError("this GGUF tokenizer is not supported", got=ggml.get("model"), expected="gpt2 (BPE)")
        if extra := [key for key in ("add_bos_token", "add_eos_token", "add_space_prefix") if ggml.get(key)]:
            raise ConfigError("this GGUF tokenizer adds to every text, which is not supported", got=extra)
        tokens = ggml["tokens"]
        ids = {name: ggml.get(f"{key}_token_id") for name, key in SPECIAL.items()}
        special = {name: tokens[i] for name, i in ids.items() if i is not None}
        pre, template = ggml.get("pre", "default"), fields.get("tokenizer.chat_template")
        return cls(tokens, ggml["token_type"], ggml["merges"], pre, special, template)


def write_tokenizer(fields: TokenizerFields, directory: Path, *, max_length: int) -> None:
    """Write both files; transformers loads them with `AutoTokenizer`, `tokenizers` the first alone."""
    build(fields).save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **fields.special,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }
    if fields.chat_template:
        config["chat_template"] = fields.chat_template
    write_json(directory / "tokenizer_config.json", config)


def build(fields: TokenizerFields) -> Any:
    """The `tokenizers.Tokenizer` that the fields describe."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    vocabulary = {token: i for i, token in enumerate(fields.tokens)}
    merges = [tuple(merge.split(" ")) for merge in fields.merges]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = _pre_tokenizer(fields.pre)
    tokenizer.decoder = decoders.ByteLevel()
    kinds = list(zip(fields.tokens, fields.types, strict=True))
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in kinds if k == CONTROL])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t, k in kinds if k == USER_DEFINED])
    return tokenizer


def _pre_tokenizer(name: str) -> Any:
    from tokenizers import pre_tokenizers

    bytes_of_words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name == "smollm":  # every digit is a token of its own
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_of_words])
    if name == "gpt-2":
        return bytes_of_words
    raise ConfigError("this GGUF pre-tokenizer is not supported", got=name, expected="smollm, gpt-2")
