"""The named texts as files of three kinds, cut into parts: what one process tokenises at a time.

.txt      UTF-8. The file is one document, unless lines that hold nothing but `<|endoftext|>`, or the tokenizer's
          own end-of-text token, divide it into several (TinyStories' form).
.jsonl    UTF-8, an object a line, a document each.
folder    what `datasets.save_to_disk` wrote: Arrow files, a document a row. Of several splits, `train` is learned
          from, `validation` or else `test` is measured on; `folder:name` takes another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mindport.errors import FileError, UsageError
from mindport.files import read_json, sha256
from mindport.training.config.train_config import DATASET_DICT
from mindport.training.data.arrow import batch_sizes

TRAIN, HELD_OUT = "train", "held_out"
SPLITS = (TRAIN, HELD_OUT)
SMALLEST, LARGEST, PARTS = 1 << 18, 1 << 23, 64  # bytes of a part, and how many a file has between the two
END_OF_TEXT = "<|endoftext|>"  # what divides documents in published text files, whatever the tokenizer
_STATE = "state.json"
_DEFAULTS = {TRAIN: ("train",), HELD_OUT: ("validation", "test")}


@dataclass(frozen=True)
class Part:
    """A piece of a file.

    Attributes:
        split: "train" or "held_out".
        kind: "txt", "jsonl" or "arrow".
        path: of the file.
        start, end: bytes; of an Arrow file, record batches.
        line: number of its first line or row, from 1.
        first, last: whether a document begins at its start, and ends at its end; false only inside a long .txt.
        size: bytes of text, about.
        sha256: of the whole file.
    """

    split: str
    kind: str
    path: str
    start: int
    end: int
    line: int
    first: bool
    last: bool
    size: int
    sha256: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def find(names: tuple[str, ...], split: str) -> list[Path]:
    """The files behind names, in order.

    Raises:
        FileError: nothing is there, or it is none of the three kinds.
    """
    return [file for name in names for file in _files(name, split)]


def parts(path: Path, split: str, marks: tuple[str, ...]) -> list[Part]:
    """The parts of one file.

    Args:
        path: a file that `find` found.
        split: for which.
        marks: lines that divide the documents of a .txt.
    """
    kind = path.suffix[1:]
    if kind == "arrow":
        digest = sha256(path)
        return [Part(split, kind, str(path), a, b, line, True, True, size, digest) for a, b, line, size in _runs(path)]
    digest, spans = _scan(path, _at_line if kind == "jsonl" else _at_paragraph(marks))
    return [Part(split, kind, str(path), *span, digest) for span in spans]


def _files(name: str, split: str) -> Iterator[Path]:
    path, _, wanted = (name, "", "") if Path(name).exists() else name.rpartition(":") if ":" in name else (name, "", "")
    folder = Path(path)
    if folder.is_dir():
        yield from _arrow_files(_split_folder(folder, wanted, split))
        return
    if not folder.is_file() or wanted:
        raise FileError("there is no such text", where=name, expected="a .txt or .jsonl file, or a dataset's folder")
    if folder.suffix not in (".txt", ".jsonl"):
        raise FileError("a text of this kind is not read", where=name, got=folder.suffix or "no suffix",
                        expected=".txt, .jsonl, or a folder that datasets.save_to_disk wrote")  # fmt: skip
    yield folder


def _split_folder(folder: Path, wanted: str, split: str) -> Path:
    """The folder of one split of a DatasetDict; a Dataset's own folder."""
    if not (folder / DATASET_DICT).is_file():
        if wanted:
            raise FileError("the dataset has no splits", where=folder, got=f":{wanted}", do="leave it out")
        return folder
    there = read_json(folder / DATASET_DICT).get("splits", [])
    choice = [wanted] if wanted else [name for name in _DEFAULTS[split] if name in there][:1]
    if not choice or choice[0] not in there:
        raise FileError("the dataset has no such split", where=folder, got=wanted or " or ".join(_DEFAULTS[split]),
                        expected=", ".join(there), do="name one: folder:split")  # fmt: skip
    return folder / choice[0]


def _arrow_files(folder: Path) -> list[Path]:
    if not (folder / _STATE).is_file():
        raise FileError("the folder holds no dataset", where=folder, expected="what datasets.save_to_disk writes",
                        do="save the dataset with save_to_disk, or name its files")  # fmt: skip
    return [folder / item["filename"] for item in read_json(folder / _STATE)["_data_files"]]


def _part_size(path: Path) -> int:
    """Small enough to keep all processes busy to the end, whatever their number; large enough to be few."""
    return min(max(path.stat().st_size // PARTS, SMALLEST), LARGEST)


def _runs(path: Path) -> Iterator[tuple[int, int, int, int]]:
    """Record batches that make a part together: first, end, row of the first, bytes."""
    start, line, rows, size = 0, 1, 0, 0
    index, wanted = -1, _part_size(path)
    for index, (count, nbytes) in enumerate(batch_sizes(path)):
        if size and size + nbytes > wanted:
            yield start, index, line, size
            start, line, rows, size = index, line + rows, 0, 0
        rows, size = rows + count, size + nbytes
    if rows:
        yield start, index + 1, line, size


# bytes, and whether a document begins there → how many of them make a part, and whether a document ends there
Cut = Callable[[bytes, bool], tuple[int, bool]]


def _scan(path: Path, cut: Cut) -> tuple[str, list[tuple[int, int, int, bool, bool, int]]]:
    """Digest and spans in one reading: start, end, line, first, last, size."""
    digest, spans, rest = hashlib.sha256(), [], b""
    start, line, first, wanted = 0, 1, True, _part_size(path)
    try:
        with path.open("rb") as file:
            while block := file.read(wanted):
                digest.update(block)
                rest += block
                size, last = cut(rest, first)
                if size and len(rest) >= wanted:
                    spans.append((start, start + size, line, first, last, size))
                    start, line, first = start + size, line + rest.count(b"\n", 0, size), last
                    rest = rest[size:]
    except OSError as error:
        raise FileError("the text cannot be read", where=path, got=error) from None
    if rest:
        spans.append((start, start + len(rest), line, first, True, len(rest)))
    elif spans:
        spans[-1] = (*spans[-1][:4], True, spans[-1][5])
    return digest.hexdigest(), spans


def _at_line(data: bytes, first: bool) -> tuple[int, bool]:
    return data.rfind(b"\n") + 1, True


def _at_paragraph(marks: tuple[str, ...]) -> Cut:
    """After the last line that ends a document; else before the last paragraph's line breaks, line break or space.

    Before, not after: pre-tokenizers of the GPT family split there whatever follows.
    """
    ends = [f"{mark}{end}".encode() for mark in marks for end in ("\n", "\r\n")]

    def cut(data: bytes, first: bool) -> tuple[int, bool]:
        behind = [at + 1 + len(end) for end in ends if (at := data.rfind(b"\n" + end)) >= 0]
        behind += [len(end) for end in ends if first and data.startswith(end)]
        if behind:
            return max(behind), True
        for gap in (b"\n\n", b"\n\r\n", b"\n", b" "):
            found = data.rfind(gap)
            if size := len(data[: max(found, 0)].rstrip(b" \r\n" if gap == b" " else b"\r\n")):
                return size, False
        size = len(data)
        while size and data[size - 1] & 0xC0 == 0x80:  # a character of several bytes stays whole
            size -= 1
        return max(size - 1, 0), False

    return cut


def check_named(train: tuple[str, ...]) -> None:
    """Refuse to prepare nothing."""
    if not train:
        raise UsageError("there is no text to learn from", where="data.train", got="nothing",
                         expected="files (.txt, .jsonl) or datasets on disk")  # fmt: skip
