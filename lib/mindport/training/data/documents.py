"""The documents of a part: text, prompt and completion, or a conversation, each checked, each with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mindport.errors import FileError
from mindport.training.data.arrow import read_columns
from mindport.training.data.files import Part

Form = Literal["text", "pair", "chat"]
PIECE = 1 << 14  # characters: a longer .txt document is divided at a paragraph, for the share that is held out
CHAT = "messages"


@dataclass(frozen=True)
class Document:
    """One document, or a piece of a long one.

    Attributes:
        value: a text; prompt and completion; or a list of messages.
        where: file and line.
        first, last: whether the document begins and ends with it.
    """

    value: Any
    where: str
    first: bool = True
    last: bool = True


def form_of(column: str) -> tuple[Form, tuple[str, ...]]:
    """What the configuration's `column` means: the form of a document, and the columns that it is made of."""
    names = tuple(name.strip() for name in column.split(","))
    if len(names) > 2 or not all(names):
        raise FileError("this is no column", where="data.column", got=column,
                        expected="the name of a text, `messages`, or `prompt,completion`")  # fmt: skip
    return ("pair" if len(names) == 2 else "chat" if names == (CHAT,) else "text"), names


def read_documents(part: Part, column: str, marks: tuple[str, ...]) -> Iterator[Document]:
    """The documents of a part, in order.

    Raises:
        FileError: a line is not UTF-8 or JSON, a column is missing or of another kind: with file and line.
    """
    form, names = form_of(column)
    if part.kind == "txt":
        if form != "text":
            raise FileError("a .txt file has no columns", where=part.path, got=column, expected="data.column: text",
                            do="give conversations and pairs as .jsonl or as a dataset")  # fmt: skip
        yield from _text_documents(part, marks)
        return
    for line, values in _jsonl_rows(part, names) if part.kind == "jsonl" else _arrow_rows(part, names):
        where = f"{part.path}:{line}"
        if values is None:
            yield Document("", where)
        else:
            yield Document(_checked(values, form, names, where), where)


def _text_documents(part: Part, marks: tuple[str, ...]) -> Iterator[Document]:
    text = _decode(_bytes(part), part).replace("\r\n", "\n")
    if part.start == 0:
        text = text.removeprefix("\ufeff")
    texts = re.split(_mark_pattern(part, marks), text, flags=re.MULTILINE)
    ended = len(texts) > 1 and not texts[-1]  # the text ends in a mark: nothing begins behind it
    texts = texts[:-1] if ended else texts
    line = part.line
    for index, one in enumerate(texts):
        first, last = index > 0 or part.first, index + 1 < len(texts) or part.last or ended
        marked = index + 1 < len(texts) or ended
        body = one.rstrip("\n") if marked else one
        yield from _pieces(body, f"{part.path}:{line}", first, last)
        line += one.count("\n") + 1


def _mark_pattern(part: Part, marks: tuple[str, ...]) -> str:
    """Lines that are a mark; inside a document a part begins and ends in the middle of a line, or before its end."""
    begin, end = "^" if part.first else r"(?<=\n)", r"(?:\n|\Z)" if part.last else r"\n"
    return f"{begin}(?:{'|'.join(map(re.escape, marks))}){end}"


def _pieces(text: str, where: str, first: bool, last: bool) -> Iterator[Document]:
    """A document as it is, or divided before paragraphs, each piece as long as `PIECE` or a little longer."""
    start = 0
    while (found := text.find("\n\n", start + PIECE)) > 0:
        end = start + len(text[start:found].rstrip("\n"))
        if end > start and text[found:].strip():
            yield Document(text[start:end], where, first, False)
            start, first = end, False
        else:
            break
    yield Document(text[start:], where, first, last)


def _jsonl_rows(part: Part, names: tuple[str, ...]) -> Iterator[tuple[int, tuple[Any, ...] | None]]:
    """Line number and values; None for a line of nothing."""
    data = _bytes(part)
    for line, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), part.line):
        raw = raw.removeprefix(b"\xef\xbb\xbf") if line == 1 else raw
        yield line, _values(raw, names, f"{part.path}:{line}") if raw.strip() else None


def _values(raw: bytes, names: tuple[str, ...], where: str) -> tuple[Any, ...]:
    try:
        row = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FileError("the text is not UTF-8", where=where, got=error, do="convert it: iconv -t UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise FileError("the line is not JSON", where=where, got=error, do="correct or remove it") from None
    if not isinstance(row, dict):
        raise FileError("the line is not an object", where=where, got=type(row).__name__)
    if missing := [name for name in names if name not in row]:
        raise FileError("the line has no such column", where=where, got=", ".join(row) or "no column",
                        expected=", ".join(missing), do="name the column of the text: data.column")  # fmt: skip
    return tuple(row[name] for name in names)


def _arrow_rows(part: Part, names: tuple[str, ...]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    yield from enumerate(read_columns(Path(part.path), names, part.start, part.end), part.line)


def _checked(values: tuple[Any, ...], form: Form, names: tuple[str, ...], where: str) -> Any:
    if form == "chat":
        return _conversation(values[0], where)
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, str):
            raise FileError("the column is not text", where=f"{where}: {name}", got=type(value).__name__,
                            expected="a string")  # fmt: skip
        _check_unicode(value, f"{where}: {name}")
    return values if form == "pair" else values[0]


def _conversation(messages: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages:
        raise FileError("a conversation is a list of messages", where=where, got=type(messages).__name__,
                        expected='[{"role": "user", "content": "…"}, {"role": "assistant", …}]')  # fmt: skip
    for number, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str) or not isinstance(message.get("role"), str):
            raise FileError("a message has a role and a content, both text", where=f"{where}: messages[{number}]",
                            got=str(message)[:80])  # fmt: skip
        _check_unicode(content, f"{where}: messages[{number}]")
    if not any(message["role"] == "assistant" for message in messages):
        raise FileError("the assistant says nothing here: there is nothing to learn", where=where,
                        got=", ".join(message["role"] for message in messages), expected="assistant")  # fmt: skip
    return messages


def _check_unicode(text: str, where: str) -> None:
    r"""JSON can say half a character (\ud800), which no tokenizer takes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FileError("the text is not Unicode", where=where, got=error, do="correct or remove it") from None


def _bytes(part: Part) -> bytes:
    try:
        with Path(part.path).open("rb") as file:
            file.seek(part.start)
            return file.read(part.end - part.start)
    except OSError as error:
        raise FileError("the text cannot be read", where=part.path, got=error) from None


def _decode(data: bytes, part: Part) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = part.line + data.count(b"\n", 0, error.start)
        raise FileError("the text is not UTF-8", where=f"{part.path}:{line}", got=error.reason,
                        do="convert it: iconv -t UTF-8") from None  # fmt: skip
