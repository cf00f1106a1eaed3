"""The experiments of notebook 05: each verdict turns red. That they are green, the notebook's own run shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mindport import sources
from mindport.tables import Table
from mindport.training.data.batch import IGNORED, Batch
from mindport.training.lessons import flip_a_bit, lesson_config, rehearse_alarms, row_table
from mindport.training.lessons.accumulation import Accumulation, _shortened
from mindport.training.lessons.lengths import CompileCost, Length, _padded
from mindport.training.lessons.levels import Level, Levels
from mindport.training.lessons.modes import Modes, Way
from mindport.training.lessons.rehearsal import TROUBLES, Rehearsal, Trouble, _listen
from mindport.training.lessons.scale import ScaleCourse
from mindport.training.step_record import StepRecord

TINY = sources.resolve("tiny-gpt2")


def batch(labels: list[int]) -> Batch:
    ids = np.arange(5, 5 + len(labels), dtype=np.int32)[None]
    return Batch(ids, np.array([labels], np.int32))


def test_every_trouble_is_named_and_a_healthy_run_is_quiet():
    heard = rehearse_alarms()
    assert heard.ok, heard.text()
    assert [row["alarm"] for row in heard.as_dict()["rang"]] == [trouble.alarm for trouble in TROUBLES]
    assert len(heard.tables()[0].rows) == len(TROUBLES)


def test_an_alarm_that_is_missing_or_false_or_another_turns_it_red():
    heard = rehearse_alarms()
    (trouble, alarm), *others = heard.rang
    assert not Rehearsal(((trouble, None), *others), ()).ok
    assert not Rehearsal(heard.rang, (alarm,)).ok
    assert not Rehearsal(((trouble, others[0][1]), *others), ()).ok
    assert _listen(Trouble("nothing", "", lambda record: record)) == []


def test_a_row_is_told_in_runs():
    table = row_table(batch([5, IGNORED, 7, 8, IGNORED]), TINY / "tokenizer.json")
    assert [row[:3] for row in table.rows] == [
        ("0–1", "read only", 2), ("2–3", "learned", 2), ("4–4", "read only", 1)]  # fmt: skip


def test_the_first_token_is_never_learned():
    assert row_table(batch([5, 6]), TINY / "tokenizer.json").rows[0][:2] == ("0–0", "read only")


@pytest.mark.parametrize(("size", "start"), [("smoke", "scratch"), ("small", "pretrained")])
def test_a_training_suits_size_and_model(size, start):
    config = lesson_config(TINY, size, "out", steps=8)
    assert (config.start, config.steps, config.dropout) == (start, 8, 0.0)
    assert config.data.tokens <= 128
    assert Path(config.data.train[0]).is_file()
    assert config.checkpoints.every == 4


def test_losses_that_differ_between_modes_turn_it_red():
    way = Way("PyNative", 1.0, 0.5, (2.0, 1.9), 0)
    fast = replace(way, mode="Graph", first=3.0, step=0.1, graphs=1)
    assert Modes("two layers", (way, fast)).ok
    assert Modes("two layers", (way, fast)).worth_it == pytest.approx(5.0)
    assert not Modes("two layers", (way, replace(fast, losses=(2.0, 1.8)))).ok
    assert Modes("two layers", (way, replace(fast, step=0.6))).worth_it is None


def test_a_graph_too_many_or_another_loss_turns_it_red():
    cost = CompileCost((Length(8, 1.0, 0.1, 2.0, 2.0), Length(6, 1.0, 0.1, 2.1, 2.1)), 2, 1, 1.2)
    assert cost.ok
    assert not replace(cost, graphs=3).ok
    assert not replace(cost, padded_graphs=2).ok
    assert not replace(cost, lengths=(cost.lengths[0], replace(cost.lengths[1], padded_loss=2.2))).ok


def test_padding_keeps_the_shape_and_counts_nothing():
    padded = _padded(batch([5, 6, 7, 8]), 2)
    assert padded.ids.tolist() == [[5, 6, 0, 0]]
    assert padded.labels.tolist() == [[5, 6, IGNORED, IGNORED]]


def test_a_level_that_is_far_off_turns_it_red():
    exact, near, far = (Level(name, (2.0, loss), (1.0, 1.0), 0.1) for name, loss in
                        (("O0", 1.9), ("O1", 1.901), ("O2", 1.95)))  # fmt: skip
    kept = Table("kept", ("what",), [])
    assert Levels((exact, near), "", kept).ok
    assert not Levels((exact, near, far), "", kept).ok


def test_a_scale_that_is_not_halved_or_a_count_that_runs_ahead_turns_it_red():
    record = StepRecord(1, 2.0, 1.0, 0.1, loss_scale=8.0)
    records = (replace(record, moved=False), replace(record, step=2, loss_scale=4.0))
    assert ScaleCourse(records, 8.0, 4, 1).ok
    assert not ScaleCourse((records[0], replace(records[1], loss_scale=8.0)), 8.0, 4, 1).ok
    assert not ScaleCourse(records, 8.0, 4, 2).ok
    assert not ScaleCourse((replace(record, moved=True), records[1]), 8.0, 4, 2).ok


def test_pieces_that_are_another_step_turn_it_red():
    same = Accumulation((9, 3), (2.0, 1.0), (2.0, 1.0), (3.0, 2.0))
    assert same.ok
    assert not replace(same, pieces=(2.0, 1.1)).ok
    assert same.off(same.means) == 1.0


def test_pieces_count_less_and_less():
    whole = batch(list(range(5, 21)))
    assert [_shortened(whole, piece).counted for piece in range(4)] == [15, 11, 7, 3]


def test_one_bit_is_flipped(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(5))
    flip_a_bit(path)
    assert path.read_bytes() == bytes([0, 0, 1, 0, 0])
