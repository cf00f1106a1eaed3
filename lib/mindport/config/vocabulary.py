"""The size of the vocabulary according to the tokenizer and to the embedding, without reading any weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.config.dialect import Dialect
from mindport.config.locate import is_plain
from mindport.config.readers import token_id
from mindport.config.wrappers import prefix_of
from mindport.errors import FileError
from mindport.files import read_json


@dataclass(frozen=True)
class Vocabulary:
    """Sizes found beside config.json; None where there is no such file.

    Attributes:
        tokenizer: highest token id of tokenizer.json plus one.
        embedding: rows of the embedding matrix, from the header of the safetensors file.
        pad: id of the tokenizer's padding token.
    """

    tokenizer: int | None = None
    embedding: int | None = None
    pad: int | None = None


def read_vocabulary(directory: Path, dialect: Dialect) -> Vocabulary:
    """The sizes that the files of `directory` tell."""
    ids = _token_ids(directory / "tokenizer.json")
    pad = _pad_token(directory / "tokenizer_config.json")
    return Vocabulary(
        tokenizer=max(ids.values()) + 1 if ids else None,
        embedding=_embedding_rows(directory, dialect),
        pad=ids.get(pad) if pad else None,
    )


def _token_ids(path: Path) -> dict[str, int]:
    """Token → id, added tokens included."""
    if not path.is_file():
        return {}
    content = read_json(path)
    try:
        vocab = content["model"]["vocab"]
        pairs = vocab.items() if isinstance(vocab, dict) else ((item[0], i) for i, item in enumerate(vocab))
        ids = {**dict(pairs), **{token["content"]: token["id"] for token in content.get("added_tokens", ())}}
        return {token: token_id(number) for token, number in ids.items()}
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise FileError("tokenizer.json has no vocabulary", where=path, got=repr(error),
                        expected="an id, a whole number from 0, for each token",
                        do="download or save the tokenizer again") from None  # fmt: skip


def _pad_token(path: Path) -> str | None:
    content: Any = read_json(path) if path.is_file() else {}
    token = content.get("pad_token") if isinstance(content, dict) else None
    text = token.get("content") if isinstance(token, dict) else token
    if text is not None and not isinstance(text, str):
        raise FileError("tokenizer_config.json names no token for padding", where=path, got=f"pad_token {token!r}",
                        expected="a token's text", do="download or save the tokenizer again")  # fmt: skip
    return text


def _embedding_rows(directory: Path, dialect: Dialect) -> int | None:
    """Rows of the embedding; None when the weights are not safetensors (conversion checks them all the same)."""
    foreign = next(row.foreign for row in dialect.rows if row.hub == "embed.weight")
    files = _files(directory, lambda name: prefix_of(dialect, name, (foreign,)) is not None)
    found = (_rows(file, dialect, foreign) for file in files if file.is_file())
    return next((rows for rows in found if rows is not None), None)


def _files(directory: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """The files of `directory` that hold the `wanted` tensors; a damaged index is the converter's to refuse."""
    index = directory / "model.safetensors.index.json"
    content = read_json(index) if index.is_file() else None
    if content is None:
        return [directory / "model.safetensors"]
    listed = content.get("weight_map") if isinstance(content, dict) else None
    files = [file for name, file in listed.items() if wanted(name)] if isinstance(listed, dict) else []
    return [directory / file for file in files if isinstance(file, str) and is_plain(file)]


def _rows(file: Path, dialect: Dialect, foreign: str) -> int | None:
    """Rows of the tensor that is `foreign` behind any wrappers' prefixes; None when the file has none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "np") as weights:
            name = next((name for name in weights.keys() if prefix_of(dialect, name, (foreign,)) is not None), None)
            shape = None if name is None else weights.get_slice(name).get_shape()
    except (SafetensorError, OSError) as error:
        raise FileError("the weights file is damaged", where=file, got=error, do="download it again") from None
    if shape == []:
        raise FileError("the embedding is one number, not a matrix", where=f"{file}: {name}",
                        do="download or save it again")  # fmt: skip
    return shape[0] if shape else None
