"""Parts to shards, in a process of its own: a job a line on stdin, an answer a line on stdout, both JSON.

    {"part": {…}, "model": "…", "column": "text", "vocab_size": 512, "tokenizer": "<sha256>", "shard": "…"}   → {}

What the user got wrong is answered as {"error": {"what": …, "where": …}}. The process ends with its stdin.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from mindport.errors import FileError, MindPortError
from mindport.processes import own_stdout
from mindport.training.data.documents import form_of, read_documents
from mindport.training.data.encoder import Encoder
from mindport.training.data.files import Part
from mindport.training.data.shard import key_of, write_shard

FIELDS = ("what", "where", "got", "expected", "do")


def tokenise(job: dict[str, Any], shard: Path) -> None:
    """One part to one shard."""
    encoder = _encoder(job["model"], job["column"], job["vocab_size"], job["tokenizer"])
    documents = read_documents(Part(**job["part"]), job["column"], encoder.tokenizer.marks)
    write_shard(shard, key_of(job), encoder.encode(documents))


@lru_cache(maxsize=1)
def _encoder(model: str, column: str, vocab_size: int, digest: str) -> Encoder:
    return Encoder(Path(model), form_of(column)[0], vocab_size)


def main() -> int:
    """Answer until stdin ends."""
    answers = own_stdout()
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)
    return 0


def _answer(command: dict[str, Any]) -> dict[str, Any]:
    try:
        tokenise(command["job"], Path(command["shard"]))
        return {}
    except MindPortError as error:
        return {"error": {name: _said(getattr(error, name)) for name in FIELDS}}


def raised(answer: dict[str, Any]) -> FileError:
    """The error of an answer, to be raised on this side."""
    return FileError(answer["error"].pop("what"), **answer["error"])


def _said(value: object) -> str | None:
    return None if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
