"""Text to rows on the disk: all of it, once, undamaged, with this tokenizer; and what was killed goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from mindport import sources
from mindport.errors import BackendError, FileError, UsageError
from mindport.files import locked, sha256
from mindport.processes import environment
from mindport.training.config import DataConfig
from mindport.training.data import assemble, files, pool, prepare
from mindport.training.data.division import place, threshold
from mindport.training.data.record_writer import BLOCK, RecordWriter
from tests.training.data.conftest import documents, opened

DAMAGED = "tokens are missing|is damaged"


def all_tokens(prepared, split) -> list[int]:
    """The tokens of a packed split, its padding taken off."""
    ids = np.concatenate([batch.ids for batch in prepared.rows(split, 1)]).ravel()
    return ids[: prepared.counts(split)["tokens"]].tolist()


def expected_tokens(model: str, texts) -> list[int]:
    """What the tokenizer itself says, document by document."""
    tokenizer = Tokenizer.from_file(str(sources.resolve(model) / "tokenizer.json"))
    end = json.loads((sources.resolve(model) / "config.json").read_text())["eos_token_id"]
    return [token for text in texts for token in [*tokenizer.encode(text).ids, end]]


def test_every_token_of_the_text_is_in_the_rows(write, made, model):
    rows = documents(30)
    train, held_out = write("a.jsonl", [*rows[:20], {"text": " \n"}]), write("b.jsonl", rows[20:])
    text = write("c.txt", "To be\n<|endoftext|>\nor not to be")
    report, prepared = made(model, train=[train, text], held_out=[held_out], tokens=32)
    texts = [row["text"] for row in rows]
    assert all_tokens(prepared, "train") == expected_tokens(model, [*texts[:20], "To be", "or not to be"])
    assert all_tokens(prepared, "held_out") == expected_tokens(model, texts[20:])
    counts = report.counts("train")
    assert (counts["documents"], counts["empty"], report.counts("held_out")["documents"]) == (22, 1, 10)
    assert counts["counted"] == sum(batch.counted for batch in prepared.rows("train", 4))
    assert report.ok and report.fresh and "tokens to learn from" in report.text()
    json.dumps(report.as_dict())


def test_the_bundled_text_is_divided_at_paragraphs_and_no_token_is_lost(write, made, model):
    text = sources.corpus().read_text()[:150_000]
    report, prepared = made(model, train=[write("a.txt", text)], tokens=128)
    together = [prepared.counts(split)["tokens"] for split in ("train", "held_out")]
    whole = len(expected_tokens(model, [text]))
    assert sum(together) == whole and 0 < together[1] / whole < 0.2
    assert report.counts("train")["padding"] < 128


def test_a_share_is_held_out_by_text_so_that_no_text_is_on_both_sides(write, made):
    rows = documents(40)
    _, prepared = made(train=[write("a.jsonl", rows + rows[:20])], held_out_share=0.25, tokens=16, layout="padded")
    sides = [
        {row.tobytes() for batch in prepared.rows(split, 1) for row in batch.ids} for split in ("train", "held_out")
    ]
    assert not sides[0] & sides[1] and len(sides[0] | sides[1]) == 40
    assert 10 <= prepared.counts("held_out")["documents"] <= 22


def test_the_share_is_met_to_the_nearest_document():
    keys = np.arange(1000, dtype=np.uint64)
    for seed in (1, 2):
        held = place(keys, seed) < threshold([keys[:300], keys[300:]], seed, 0.031)
        assert held.sum() == 31
    assert (place(keys[:1], 3) < threshold([keys[:1]], 3, 0.01)).all()  # one at least


def test_a_division_that_tears_equal_texts_apart_is_seen(write, made, monkeypatch):
    rows = [{"text": "the same words in each document"}] * 40
    places = np.random.default_rng(0)
    monkeypatch.setattr(assemble, "place", lambda keys, seed: places.random(len(keys)))
    monkeypatch.setattr(assemble, "threshold", lambda keys, seed, share: 0.5)
    report, _ = made(train=[write("a.jsonl", rows)], tokens=16, layout="padded")
    assert report.manifest.shared > 0 and not report.ok
    assert report.properties()[1].state == "failed"


def test_a_document_on_both_sides_is_learned_from_and_not_held_out(write, made):
    rows = documents(12)
    report, prepared = made(train=[write("a.jsonl", rows[:8])], held_out=[write("b.jsonl", rows[6:])], tokens=32)
    assert report.manifest.leaked == 2 and "2 held-out documents are in the training text" in report.headline()
    assert all_tokens(prepared, "held_out") == expected_tokens("tiny-gpt2", [row["text"] for row in rows[8:]])


def test_equal_documents_are_left_out_where_that_is_asked_for(write, made):
    rows = documents(6)
    twice = write("a.jsonl", rows + rows[:4])
    held_out = write("b.jsonl", documents(3, start=10))
    report, prepared = made(train=[twice], held_out=[held_out], tokens=32, unique=True)
    assert (report.counts("train")["documents"], report.counts("train")["duplicates"]) == (6, 4)
    assert all_tokens(prepared, "train") == expected_tokens("tiny-gpt2", [row["text"] for row in rows])
    assert made(out="all", train=[twice], held_out=[held_out], tokens=32)[0].counts("train")["duplicates"] == 0


def test_long_documents_are_cut_and_counted_where_each_has_a_row(write, made):
    report, prepared = made(train=[write("a.jsonl", documents(30))], tokens=48, layout="padded", buckets=[24, 32])
    counts = report.counts("train")
    assert counts["truncated"] > 0 and "were cut off" in report.headline()
    assert set(prepared.lengths("train")) == {int(length) for length in counts["rows"]} <= {24, 32, 48}
    assert counts["counted"] == sum(batch.counted for batch in prepared.rows("train", 4))


def test_a_second_call_finds_the_first_and_another_request_is_refused(write, made):
    path = write("a.jsonl", documents(10))
    made(train=[path], tokens=32)
    report, _ = made(train=[path], tokens=32, workers=1)
    assert not report.fresh and "there already" in report.headline()
    os.utime(path)  # the same text, of another time
    assert not made(train=[path], tokens=32)[0].fresh
    with pytest.raises(FileError, match=r"in another way(.|\n)*tokens 32(.|\n)*tokens 16"):
        made(train=[path], tokens=16)
    with pytest.raises(FileError, match=r"in another way(.|\n)*seed 1"):
        made(train=[path], tokens=32, seed=2)
    write("a.jsonl", documents(11))
    with pytest.raises(FileError, match=r"in another way(.|\n)*text"):
        made(train=[path], tokens=32)


def test_an_empty_file_changes_nothing_and_another_end_of_text_is_another_request(write, made, tmp_path):
    texts = [write("a.jsonl", documents(10)), write("empty.txt", "")]
    made(train=texts, tokens=32)
    os.utime(texts[1])
    assert not made(train=texts, tokens=32)[0].fresh
    model = shutil.copytree(sources.resolve("tiny-gpt2"), tmp_path / "model")
    (model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>", "add_bos_token": True,
                                                             "bos_token": "<|endoftext|>"}))  # fmt: skip
    with pytest.raises(FileError, match=r"in another way(.|\n)*special(.|\n)*'before': \[0\]"):
        prepare(DataConfig(train=tuple(texts), tokens=32), model, tmp_path / "rows", vocab_size=512, seed=1,
                progress=False)  # fmt: skip


def test_torn_and_edited_files_are_refused(write, made, tmp_path):
    made(train=[write("a.jsonl", documents(10))], tokens=32)
    whole, rows = tmp_path / "whole", tmp_path / "rows"
    rows.replace(whole)
    name = "train-32-00000.mindrecord"
    for spoil in (_edit, _cut, Path.unlink):
        for file in (name, f"{name}.db"):
            shutil.copytree(whole, rows)
            spoil(rows / file)
            with pytest.raises(FileError, match=DAMAGED):
                opened(rows)
            with pytest.raises(FileError, match=DAMAGED):
                made(train=[str(tmp_path / "a.jsonl")], tokens=32)
            shutil.rmtree(rows)
    assert opened(whole).size("train") > 0


def _edit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def test_another_tokenizer_or_vocabulary_is_refused(write, made, tmp_path):
    made(train=[write("a.jsonl", documents(10))], tokens=32)
    with pytest.raises(FileError, match="another tokenizer"):
        opened(tmp_path / "rows", tokenizer=sources.resolve("tiny-llama") / "tokenizer.json")
    with pytest.raises(FileError, match="another vocabulary"):
        opened(tmp_path / "rows", vocab_size=513)
    with pytest.raises(FileError, match=r"no row for(.|\n)*below 511"):
        prepare(DataConfig(train=(str(tmp_path / "a.jsonl"),)), sources.resolve("tiny-gpt2"), tmp_path / "other",
                vocab_size=511, seed=1, progress=False)  # fmt: skip


def test_an_end_of_text_that_the_model_does_not_know_is_refused(write, tmp_path):
    path = write("a.jsonl", documents(4))
    model = shutil.copytree(sources.resolve("tiny-llama"), tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    for name in ("config.json", "generation_config.json"):
        (model / name).write_text(json.dumps({**config, "eos_token_id": 7}))
    with pytest.raises(FileError, match=r"end of text is not the model's(.|\n)*id 1(.|\n)*7"):
        prepare(DataConfig(train=(path,)), model, tmp_path / "rows", vocab_size=768, seed=1, progress=False)


def test_a_disk_that_refuses_the_rows_is_told_of(tmp_path):
    writer = RecordWriter(tmp_path / "nowhere", "train", 4)
    with pytest.raises(FileError, match=r"the rows cannot be written(.|\n)*nowhere"):
        writer.add(np.zeros((BLOCK, 4), np.int32))


def test_a_share_that_is_far_from_what_was_asked_is_said(write, made):
    texts = documents(40)
    even = made(train=[write("even.jsonl", texts)], tokens=16, held_out_share=0.1)[0]
    assert "% of the tokens" not in even.headline()
    few = made(out="few", train=[write("few.jsonl", texts[:3])], tokens=16, held_out_share=0.05)[0]
    assert few.held_share() > 0.1 and f"{few.held_share():.0%} of the tokens are held out" in few.headline()


def test_nothing_to_learn_or_to_measure_is_refused(write, made, tmp_path):
    with pytest.raises(UsageError, match="no text to learn from"):
        made(train=[])
    with pytest.raises(FileError, match=r"leaves nothing to learn from(.|\n)*0 documents(.|\n)*; 1 on the other side"):
        made(train=[write("one.jsonl", documents(1))], tokens=32)
    both = write("b.jsonl", documents(5))
    with pytest.raises(FileError, match=r"leaves nothing to measure on(.|\n)*5 on both sides"):
        made(out="both", train=[both], held_out=[write("c.jsonl", documents(5))], tokens=32)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter.txt").write_text("Dear Sir")
    with pytest.raises(FileError, match=r"something else(.|\n)*letter.txt"):
        made(out="taken", train=[both])


DRIVER = """
import json, sys
from pathlib import Path
from mindport.training.config import DataConfig
from mindport.training.data import files, pool, prepare
files.SMALLEST = files.LARGEST = {size}
pool.SMALL = 0
if __name__ == "__main__":
    config = DataConfig(train=({path!r},), tokens=32, workers=1)
    prepare(config, {model!r}, {out!r}, vocab_size=512, seed=1, progress=False)
"""
PART = 6000


def test_what_was_killed_goes_on_and_leaves_the_same_bytes(write, made, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SMALLEST", PART)
    monkeypatch.setattr(files, "LARGEST", PART)
    path = write("a.txt", sources.corpus().read_text()[:200_000])
    shards = tmp_path / "killed" / "parts"
    driver = DRIVER.format(size=PART, path=path, model=str(sources.resolve("tiny-gpt2")), out=str(tmp_path / "killed"))
    process = subprocess.Popen([sys.executable, "-c", driver], env=environment(), start_new_session=True)
    while process.poll() is None and len(list(shards.glob("[0-9]*.npz"))) < 5:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = sorted(shards.glob("[0-9]*.npz"))
    assert kept and not (tmp_path / "killed" / "manifest.json").exists()
    _cut(kept[0])  # a disk may have lost it
    for torn in ("writing/train-32-00000.mindrecord", "held_out-64-00000.mindrecord"):  # killed still later
        (tmp_path / "killed" / torn).parent.mkdir(exist_ok=True)
        (tmp_path / "killed" / torn).write_bytes(b"torn")
    report, _ = made(out="killed", train=[path], tokens=32)
    assert report.kept == len(kept) - 1 < report.parts
    assert not shards.exists()
    made(out="whole", train=[path], tokens=32)
    assert _digests(tmp_path / "killed") == _digests(tmp_path / "whole")


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in folder.glob("*.mindrecord*")}


def test_several_processes_leave_the_same_rows_and_name_a_bad_line(write, made, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SMALLEST", 3000)
    monkeypatch.setattr(files, "LARGEST", 3000)
    path = write("a.jsonl", documents(40))
    made(out="here", train=[path], tokens=32)
    monkeypatch.setattr(pool, "SMALL", 0)
    made(out="apart", train=[path], tokens=32, workers=2)
    assert _digests(tmp_path / "here") == _digests(tmp_path / "apart")
    with Path(path).open("a") as file:
        file.write("{]\n")
    with pytest.raises(FileError, match=r"not JSON(.|\n)*a.jsonl:41"):
        made(out="bad", train=[path], tokens=32, workers=1)


def test_a_process_that_ends_is_said(write, made, monkeypatch):
    def start():
        return subprocess.Popen([sys.executable, "-c", "import os; input(); os.kill(os.getpid(), 9)"], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip

    monkeypatch.setattr(pool, "SMALL", 0)
    monkeypatch.setattr(pool, "_start", start)
    with pytest.raises(BackendError, match=r"tokenises ended(.|\n)*a.jsonl(.|\n)*signal 9"):
        made(train=[write("a.jsonl", documents(4))])


def test_one_process_at_a_time_prepares_in_a_directory(write, made, tmp_path):
    with locked(tmp_path / "rows" / ".lock", "busy", "wait"), pytest.raises(UsageError, match="another process"):
        made(train=[write("a.jsonl", documents(4))])
