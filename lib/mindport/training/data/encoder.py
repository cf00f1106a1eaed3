"""Documents to tokens, and which of them a model is to predict.

A token that does not count is kept as ~id (−1 − id), a negative number: one array holds ids and labels both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import xxhash

from mindport.errors import FileError
from mindport.training.data.batch import IGNORED, Batch
from mindport.training.data.chat import ChatTemplate, Spans, read_template
from mindport.training.data.documents import Document, Form
from mindport.training.data.tokenizer import Tokenizer, read_tokenizer

TOGETHER = 64  # texts


@dataclass(frozen=True)
class Encoded:
    """Documents, or pieces of them, end to end.

    Attributes:
        tokens: int32 (N,): an id where it counts, ~id where it does not.
        lengths: int64 (D,): tokens of each.
        keys: uint64 (D,): XXH3 of each text.
        starts: bool (D,): whether a document begins with it.
        empty: documents without text, which are not among them.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    keys: np.ndarray
    starts: np.ndarray
    empty: int


def to_batch(tokens: np.ndarray) -> Batch:
    """Ids and labels out of (B, T) tokens."""
    ignored = tokens < 0
    if not ignored.any():
        return Batch(tokens, tokens.copy())
    return Batch(np.where(ignored, ~tokens, tokens), np.where(ignored, np.int32(IGNORED), tokens))


class Encoder:
    """A model's way from text to ids.

    Args:
        directory: of the model.
        form: of the documents.
        vocab_size: of the model.
    """

    def __init__(self, directory: Path, form: Form, vocab_size: int) -> None:
        self.tokenizer: Tokenizer = read_tokenizer(directory, vocab_size)
        self.form = form
        self.template: ChatTemplate | None = read_template(directory, self.tokenizer.names) if form == "chat" else None

    def encode(self, documents: Iterable[Document]) -> Encoded:
        """Tokens of documents, in order; those without text are counted.

        Raises:
            FileError: the chat template refuses a conversation.
        """
        if self.form == "text":
            return self._texts([*documents])
        answered = [self._answered(document) for document in documents]
        texts = [(text, spans) for text, spans in answered if any(end > start for start, end in spans)]
        return self._answers(texts, len(answered) - len(texts))

    def _texts(self, documents: Sequence[Document]) -> Encoded:
        kept = [d for d in documents if d.value.strip() or not (d.first and d.last)]
        texts = [d.value for d in kept]
        before, after = ([], [*self.tokenizer.before]), ([], [*self.tokenizer.after])
        ids = [before[d.first] + e + after[d.last] for d, e in zip(kept, self._ids(texts), strict=True)]
        starts = np.fromiter((d.first for d in kept), bool, len(kept))
        return _joined(ids, texts, starts, len(documents) - len(kept))

    def _ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Some texts at a time: what `tokenizers` answers has 40 times the size of the ids."""
        for start in range(0, len(texts), TOGETHER):
            some = self.tokenizer.core.encode_batch_fast(texts[start : start + TOGETHER], add_special_tokens=False)
            yield from (encoding.ids for encoding in some)

    def _answered(self, document: Document) -> tuple[str, Spans]:
        """A text, and the spans of its characters that count."""
        if not document.value:  # an empty line
            return "", []
        if self.template is None:
            prompt, completion = document.value
            return prompt + completion, [(len(prompt), len(prompt) + len(completion))]
        try:
            return self.template.render(document.value)
        except (jinja2.TemplateError, ValueError, TypeError) as error:
            raise FileError("the chat template refuses the conversation", where=document.where, got=error) from None

    def _answers(self, texts: Sequence[tuple[str, Spans]], empty: int) -> Encoded:
        found = self.tokenizer.core.encode_batch([text for text, _ in texts], add_special_tokens=False)
        rows = [self._marked(encoding, spans) for encoding, (_, spans) in zip(found, texts, strict=True)]
        return _joined(rows, [text for text, _ in texts], np.ones(len(rows), bool), empty)

    def _marked(self, encoding: Any, spans: Spans) -> list[int]:
        """Ids inside the spans as they are, others as ~id; a pair gets BOS and EOS, a template has said its own."""
        ids, offsets = np.array(encoding.ids, np.int32), np.array(encoding.offsets, np.int64).reshape(-1, 2)
        counts = np.zeros(len(ids), bool)
        for start, end in spans:
            counts |= (offsets[:, 1] > start) & (offsets[:, 0] < end)
        row = np.where(counts, ids, ~ids).tolist()
        return row if self.template else [*(~i for i in self.tokenizer.before), *row, *self.tokenizer.after]


def _joined(ids: Sequence[Sequence[int]], texts: Sequence[str], starts: np.ndarray, empty: int) -> Encoded:
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    keys = np.fromiter((xxhash.xxh3_64_intdigest(text.encode()) for text in texts), np.uint64, len(texts))
    tokens = np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum()))
    return Encoded(tokens, lengths, keys, starts, empty)
