"""Conversations as text, by the model's own chat template, and where in it the assistant speaks.

The template runs in the sandbox, and with the settings, of transformers' `apply_chat_template`. Which characters are
the assistant's is said by the template's `{% generation %}` blocks; where it has none, by rendering the conversation
up to each of its turns: what a turn adds to that, generation prompt included, is what the model is to learn.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from mindport.errors import FileError
from mindport.files import read_json

Message = dict[str, Any]
Spans = list[tuple[int, int]]  # of characters
OPEN, CLOSE = "\ufdd0", "\ufdd1"  # noncharacters, which no text has
ASSISTANT = "assistant"


class _Generation(jinja2.ext.Extension):
    """`{% generation %} … {% endgeneration %}`: what stands between is the assistant's."""

    tags = {"generation"}  # noqa: RUF012  (jinja2's own way)

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller: Any) -> str:
        return f"{OPEN}{caller()}{CLOSE}"


class ChatTemplate:
    """A compiled chat template.

    Args:
        source: Jinja.
        tokens: special tokens by name ("bos_token" → "<s>"), which templates refer to.
    """

    def __init__(self, source: str, tokens: dict[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals.update(raise_exception=_raise, strftime_now=lambda form: datetime.now().strftime(form))
        self.template, self.tokens = environment.from_string(source), tokens

    def render(self, messages: Sequence[Message]) -> tuple[str, Spans]:
        """The conversation's text, and the spans of it that are the assistant's.

        Raises:
            jinja2.TemplateError: the template refuses the conversation.
            ValueError: it is not known which characters are the assistant's.
        """
        marked = self._text(messages)
        if OPEN in marked:
            return _unmark(marked)
        return marked, [self._span(messages, index, marked) for index, message in enumerate(messages)
                        if message["role"] == ASSISTANT]  # fmt: skip

    def _span(self, messages: Sequence[Message], index: int, whole: str) -> tuple[int, int]:
        before = self._text(messages[:index], prompt=True)
        after = self._text(messages[: index + 1]) if index + 1 < len(messages) else whole
        if not whole.startswith(after) or not after.startswith(before):
            raise ValueError("the chat template writes earlier turns in another way once later ones follow; "
                             "one with {% generation %} blocks can say which words are the assistant's")  # fmt: skip
        return len(before), len(after)

    def _text(self, messages: Sequence[Message], prompt: bool = False) -> str:
        return self.template.render(messages=list(messages), tools=None, documents=None, add_generation_prompt=prompt,
                                    **self.tokens)  # fmt: skip


def read_template(model: Path, tokens: dict[str, str]) -> ChatTemplate:
    """The template of a model's directory.

    Raises:
        FileError: it has none, or it is not valid Jinja.
    """
    source, where = _source(model)
    try:
        return ChatTemplate(source, tokens)
    except jinja2.TemplateError as error:
        raise FileError("the chat template is not valid", where=where, got=error) from None


def _source(model: Path) -> tuple[str, Path]:
    own, config = model / "chat_template.jinja", model / "tokenizer_config.json"
    if own.is_file():
        return own.read_text(encoding="utf-8"), own
    found = read_json(config).get("chat_template") if config.is_file() else None
    if isinstance(found, list):  # several by name
        found = {item["name"]: item["template"] for item in found}.get("default")
    if not isinstance(found, str):
        raise FileError("the model has no chat template", where=model,
                        expected="chat_template.jinja, or chat_template in tokenizer_config.json",
                        do="give it one, or prepare `prompt,completion`")  # fmt: skip
    return found, config


def _unmark(marked: str) -> tuple[str, Spans]:
    """Take the marks out, and keep where they stood."""
    text, spans = "", []
    for piece in marked.split(OPEN):
        answer, close, rest = piece.partition(CLOSE)
        if close:
            spans.append((len(text), len(text) + len(answer)))
        text += answer + rest
    return text, spans


def _tojson(value: Any, ensure_ascii: bool = False, **form: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **form)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
