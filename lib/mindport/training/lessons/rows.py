"""A row as the model sees it."""

from __future__ import annotations

from pathlib import Path

from mindport.tables import Table
from mindport.training.data.batch import IGNORED, Batch


def row_table(batch: Batch, tokenizer: Path | str, row: int = 0) -> Table:
    """Runs of tokens that count, and of those that do not: a row's text, as the loss looks at it.

    Args:
        batch: of rows.
        tokenizer: the model's tokenizer.json.
        row: which one.
    """
    from tokenizers import Tokenizer

    core, ids = Tokenizer.from_file(str(tokenizer)), batch.ids[row].tolist()
    learned = [False, *(batch.labels[row, 1:] != IGNORED).tolist()]  # the first has nothing before it
    starts = [i for i in range(len(ids)) if i == 0 or learned[i] != learned[i - 1]]
    runs = zip(starts, [*starts[1:], len(ids)], strict=True)
    rows = [(f"{start}–{end - 1}", "learned" if learned[start] else "read only", end - start,
             _short(core.decode(ids[start:end], skip_special_tokens=False))) for start, end in runs]  # fmt: skip
    return Table("a row: what is learned in it", ("positions", "in the loss", "tokens", "text"), rows)


def _short(text: str, width: int = 160) -> str:
    said = text.replace("\n", "⏎")
    return said if len(said) <= width else f"{said[: width // 2]} … {said[-width // 2 :]}"
