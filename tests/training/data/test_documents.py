"""Text files, JSONL and Arrow: the same documents however the file is cut, and what is wrong is named with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.errors import FileError
from mindport.training.data import files
from mindport.training.data.documents import read_documents
from mindport.training.data.files import END_OF_TEXT, find, parts

MARKS = (END_OF_TEXT, "</s>")
LINES = st.sampled_from(("", "", "a", "word and word", "日本", "é", END_OF_TEXT, "</s>", " </s>", "x" * 30))


def read(path: Path, size: int, column: str = "text"):
    """The documents of a file that is cut into parts of some bytes."""
    small, large = files.SMALLEST, files.LARGEST
    files.SMALLEST = files.LARGEST = size
    try:
        found = parts(path, "train", MARKS)
    finally:
        files.SMALLEST, files.LARGEST = small, large
    assert [part.start for part in found][1:] == [part.end for part in found][:-1]
    return [document for part in found for document in read_documents(part, column, MARKS)]


def joined(documents):
    """Whole documents out of their pieces."""
    texts: list[str] = []
    for document in documents:
        if document.first:
            texts.append("")
        texts[-1] += document.value
        assert document.last or documents[-1] is not document
    return texts


@given(st.lists(LINES, min_size=1, max_size=40), st.integers(48, 90), st.booleans())
def test_a_text_has_the_same_documents_however_it_is_cut(lines, size, ends):
    path = Path("text.txt")
    path.write_text("\n".join(lines) + ("\n" if ends else ""), encoding="utf-8")
    if not path.read_bytes():
        return
    whole = read(path, 1 << 20)
    assert joined(read(path, size)) == joined(whole)
    marks = sum(line in MARKS for line in lines)
    assert marks <= len(whole) <= marks + 1


def test_a_text_without_marks_is_one_document_kept_as_it_is():
    Path("text.txt").write_bytes("\ufeffOne\r\n\r\ntwo\n".encode())
    (document,) = read(Path("text.txt"), 1 << 20)
    assert (document.value, document.first, document.last) == ("One\n\ntwo\n", True, True)


def test_marks_divide_a_text_and_lines_are_counted():
    Path("text.txt").write_text(f"one\n{END_OF_TEXT}\n\ntwo\n</s>\n")
    assert [(d.value, d.where) for d in read(Path("text.txt"), 1 << 20)] == [
        ("one", "text.txt:1"),
        ("\ntwo", "text.txt:3"),
    ]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=20), st.integers(8, 60))
def test_jsonl_has_the_same_documents_however_it_is_cut(texts, size):
    path = Path("text.jsonl")
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    expected = [(text, f"text.jsonl:{line}") for line, text in enumerate(texts, 1)]
    assert [(d.value, d.where) for d in read(path, size)] == expected


GOOD = b'{"text": "a"}\n'


@pytest.mark.parametrize(
    ("line", "column", "said"),
    [
        (b"{]", "text", "not JSON"),
        (b'{"text": "\xff"}', "text", "not UTF-8"),
        (b'{"text": "\\ud800"}', "text", "not Unicode"),
        (b"[1]", "text", "not an object"),
        (b'{"txt": "a"}', "text", "no such column"),
        (b'{"text": 3}', "text", "not text"),
        (b'{"prompt": "a"}', "prompt,completion", "no such column"),
        (b'{"messages": "a"}', "messages", "a list of messages"),
        (b'{"messages": [{"role": "user"}]}', "messages", "a role and a content"),
        (b'{"messages": [{"role": "user", "content": "a"}]}', "messages", "nothing to learn"),
    ],
)
def test_a_bad_line_is_named(line, column, said):
    good = {
        "text": GOOD,
        "prompt,completion": b'{"prompt": "a", "completion": "b"}\n',
        "messages": b'{"messages": [{"role": "assistant", "content": "a"}]}\n',
    }[column]
    Path("bad.jsonl").write_bytes(good * 2 + line + b"\n" + good)
    with pytest.raises(FileError, match=f"{said}(.|\n)*bad.jsonl:3"):
        read(Path("bad.jsonl"), 20, column)


def test_a_text_that_is_not_utf_8_is_named_with_its_line():
    Path("bad.txt").write_bytes(b"one\n\ntwo\n\nth\xffree\n")
    with pytest.raises(FileError, match=re.escape("bad.txt:5")):
        read(Path("bad.txt"), 6)


@pytest.mark.parametrize(
    ("name", "said"), [("none.txt", "no such text"), ("text.csv", "of this kind"), (".", "no dataset")]
)
def test_what_is_no_text_is_refused(name, said):
    Path("text.csv").write_text("a")
    with pytest.raises(FileError, match=said):
        find((name,), "train")


def test_a_dataset_on_disk_with_its_splits():
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    rows = {"text": [f"document {n}" for n in range(2500)], "n": list(range(2500))}
    train = datasets.Dataset.from_dict(rows)
    some = train.select([5, 3])
    datasets.DatasetDict({"train": train, "test": some}).save_to_disk("both")
    (path,) = find(("both",), "train")
    documents = read(path, 9000)
    assert [d.value for d in documents] == rows["text"] and documents[1999].where.endswith(":2000")
    (path,) = find(("both",), "held_out")
    assert [d.value for d in read(path, 9000)] == ["document 5", "document 3"]
    assert find(("both:test",), "train") == [path]
    with pytest.raises(FileError, match=r"no such split(.|\n)*train, test"):
        find(("both:dev",), "train")
    with pytest.raises(FileError, match=r"no such column(.|\n)*body"):
        read(path, 9000, "body")
    Path(path).write_bytes(path.read_bytes()[:100])
    with pytest.raises(FileError, match="cannot be read"):
        parts(path, "train", MARKS)
