"""Checkpoints of several processes: whatever wrote them reads them, and anything else as well."""

from __future__ import annotations

import json
import os
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.config import split
from mindport.errors import FileError, MindPortError, UsageError
from mindport.training.checkpoint import Checkpoints, Share, Snapshot, gather, read_checkpoint
from mindport.training.checkpoint.record import _sealed
from mindport.weights import convert, load
from tests.training.checkpoint.ranks import errors, ranks, save, share_of, shares
from tests.training.checkpoint.runs import converted, same, snapshot
from tests.training.checkpoint.saver import killed_at

WIDE = {  # what four ranks can share, and three; the second vocabulary is held whole by all of them
    "llama": {"num_attention_heads": 24, "num_key_value_heads": 12, "head_dim": 2, "intermediate_size": 36,
              "vocab_size": 48, "num_hidden_layers": 1},
    "gpt2": {"n_head": 12, "n_inner": 60, "n_layer": 1},
}  # fmt: skip


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: converted(tmp_path_factory.mktemp(family), family, **WIDE[family]) for family in WIDE}


@pytest.fixture
def two(source: Path, tmp_path: Path) -> Path:
    """A checkpoint of step 5, of two replicas of two processes each."""
    told = shares(2, 2)
    with ranks(tmp_path / "two", source, told) as every:
        return save(every, told, snapshot(source, 5), 2.5)


@settings(max_examples=12)
@given(st.sampled_from(sorted(WIDE)), st.integers(1, 2), st.integers(1, 4), st.integers(1, 4))
def test_any_layout_is_read_under_any_other(wide: dict[str, Path], family: str, dp: int, tp: int, other: int) -> None:
    source, told = wide[family], shares(dp, tp)
    meant = snapshot(source, 3)
    with tempfile.TemporaryDirectory() as place:
        with ranks(Path(place) / "c", source, told) as every:
            found = read_checkpoint(save(every, told, meant, 1.5))
        with Checkpoints(Path(place) / "one", source, asynchronous=False) as one:
            whole = read_checkpoint(one.save(meant, 1.5).path)
        assert same(found.weights, meant.weights) and same(found.state, meant.state)
        assert (found.step, found.loss, found.about) == (3, 1.5, meant.about)
        assert len(list(found.path.glob("shard-*"))) == tp
        for saved in (found, whole):
            for share in shares(1, other):
                local = share_of(meant, saved.model, share)
                assert same({name: saved.share(name, share) for name in local.weights}, local.weights)
                assert same({name: saved.share(name, share) for name in local.state}, local.state)
                for name, x in local.weights.items():  # as a model takes its parameters
                    lazy = saved.source(name, meant.weights[name].shape)
                    assert lazy.shape == meant.weights[name].shape
                    assert lazy[split.part(name, saved.model, share)].tobytes() == x.tobytes()


def test_each_process_writes_its_share_and_what_is_whole_stands_there_once(two: Path, source: Path) -> None:
    found, meant = read_checkpoint(two), snapshot(source, 5)
    sizes = sum(x.nbytes for arrays in (meant.weights, meant.state) for x in arrays.values())
    heads = sum(16 + len(json.dumps(found.record.arrays)) for _ in "01")
    assert sizes <= sum(path.stat().st_size for path in two.glob("shard-*")) <= sizes + heads
    name = "blocks.0.norm1.weight"
    assert [len(held.parts) for held in (found.weights.held[name], found.weights.held["blocks.0.attn.o.weight"])] == [
        1,
        2,
    ]
    assert found.record.layout == "dp2,tp2"
    assert sorted(path.name for path in two.parent.iterdir()) == ["best.json", two.name]


def test_put_together_it_is_what_one_process_would_have_saved(two: Path, source: Path, tmp_path: Path) -> None:
    report = gather(two, tmp_path / "step-00000005")
    assert report.ok and report.equal == report.weights + report.state == 62
    with Checkpoints(tmp_path / "one", source) as one:
        meant = one.save(snapshot(source, 5), 2.5).path
    assert {path.name: path.read_bytes() for path in meant.iterdir()} == {
        path.name: path.read_bytes() for path in report.target.iterdir()
    }
    assert load(report.target).manifest.steps == 5
    with pytest.raises(FileError, match="there already"):
        gather(two, report.target)
    assert gather(two, report.target, overwrite=True).ok
    with pytest.raises(UsageError, match="whole already"):
        gather(meant, tmp_path / "again")
    with pytest.raises(FileError, match="replaces an earlier result only"):
        gather(two, source, overwrite=True)


def test_a_loader_says_what_helps(two: Path, tmp_path: Path) -> None:
    for call in (lambda: load(two), lambda: convert(two, tmp_path / "hf", to="huggingface", progress=False)):
        with pytest.raises(FileError, match=r"shares of several processes(.|\n)*mindport gather .*step-00000005 DST"):
            call()


def test_a_whole_one_and_one_in_shares_follow_each_other(source: Path, tmp_path: Path) -> None:
    """As when a run goes on under another layout."""
    with Checkpoints(tmp_path, source) as one:
        one.save(snapshot(source, 1), 3.0)
    told = shares(1, 2)
    with ranks(tmp_path, source, told) as every:
        assert [checkpoints.newest().step for checkpoints in every] == [1, 1]
        save(every, told, snapshot(source, 2), 4.0)
        save(every, told, snapshot(source, 3), 2.0)
        save(every, told, snapshot(source, 4), 5.0)
        with pytest.raises(UsageError, match="has a checkpoint already"):
            every[1].save(share_of(snapshot(source, 4), every[1].origin.model, told[1]))
        assert [checkpoints.cut(3) for checkpoints in every[::-1]] == [(), (tmp_path / "step-00000004",)]
    with Checkpoints(tmp_path, source, keep=1) as one:
        assert one.newest().step == 3 and one.lowest() == (tmp_path / "step-00000003", 2.0)
        one.save(snapshot(source, 4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.json", "step-00000003", "step-00000004"]


def files(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir())


def test_what_is_damaged_is_refused(two: Path, source: Path, tmp_path: Path) -> None:
    told, other = shares(2, 2), tmp_path / "other"
    with ranks(other, source, told) as every:
        foreign = save(every, told, snapshot(source, 6))
    for name in files(two):
        data = (two / name).read_bytes()
        damages: dict[str, Any] = {"flipped": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "torn": data[:-1]}
        if name.startswith("shard"):
            damages |= {
                "foreign": (foreign / name).read_bytes(),
                "of another rank": (two / other_of(name)).read_bytes(),
            }
        for damage in damages.values():
            (two / name).write_bytes(damage)
            with pytest.raises(FileError):
                read_checkpoint(two)
        (two / name).unlink()
        with pytest.raises(FileError, match=f"{name}|no training.json"):
            read_checkpoint(two)
        (two / name).write_bytes(data)
    assert read_checkpoint(two).step == 5


def other_of(name: str) -> str:
    return name.replace("-00-", "-x-").replace("-01-", "-00-").replace("-x-", "-01-")


def test_a_record_with_its_seal_made_new_is_held_to_the_shards(two: Path) -> None:
    content = json.loads((two / "training.json").read_text())
    del content["seal"]
    name = "blocks.0.attn.q.weight"
    one = content["arrays"][name]
    first, second = one["parts"]
    wrong = {
        "a hole": {"parts": {first: one["parts"][first]}},
        "another file": {"parts": {"x": one["parts"][first], second: one["parts"][second]}},
        "another type": {"dtype": "F16"},
        "no shape": {"shape": None},
    }
    for change in wrong.values():
        arrays = {**content["arrays"], name: {**one, **change}}
        (two / "training.json").write_text(_sealed({**content, "arrays": arrays}))
        with pytest.raises(MindPortError, match=r"do not hold what|does not say where"):
            read_checkpoint(two)
    for change in ({"layout": None}, {"format": 1}, {"arrays": {}}, {"arrays": 3}):
        (two / "training.json").write_text(_sealed({**content, **change}))
        with pytest.raises(MindPortError):
            read_checkpoint(two)


def test_a_process_that_does_not_come_is_named(source: Path, tmp_path: Path) -> None:
    told, whole, model = shares(2, 2, patience=0.2), snapshot(source, 1), load(source).config
    with ranks(tmp_path, source, told) as every:
        for rank in (0, 2, 3):
            every[rank].save(share_of(whole, model, told[rank]))
        said = errors([every[rank] for rank in (0, 2, 3)])
        assert "rank 1 of 4 ranks in 0.2 s" in said[0].got and "same disk" in said[0].do
        assert all("rank 0: processes did not end" in error.got for error in said[1:])
        every[1].save(share_of(whole, model, told[1]))  # late
        (late,) = errors(every[1:2])
        assert "rank 0: processes did not end" in late.got
    assert list(tmp_path.iterdir()) == []  # who came last has removed it
    with ranks(tmp_path, source, told[1:2]) as (alone,), pytest.raises(FileError, match=r"first process did not say"):
        alone.save(share_of(whole, model, told[1]))
        alone.wait()
    assert [path.name[:5] for path in tmp_path.iterdir()] == [".step"]
    with Checkpoints(tmp_path, source):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [0, 2, 4])
@pytest.mark.parametrize("rank", [0, 1])
def test_one_process_that_is_killed_is_named_by_the_other(source: Path, tmp_path: Path, rank: int, number: int) -> None:
    """And leaves names that the next run removes."""
    told, whole, model = shares(1, 2, patience=0.2), snapshot(source, 1), load(source).config

    def save_one(share: Share) -> None:
        with Checkpoints(tmp_path / "c", source, share=share, asynchronous=False) as checkpoints:
            checkpoints.save(share_of(whole, model, share))

    assert not killed_at(number, lambda: save_one(told[rank]))
    with pytest.raises(FileError) as error:
        save_one(told[1 - rank])
    assert f"nothing from rank {rank}" in error.value.got
    assert all(path.name.startswith(".step-") for path in (tmp_path / "c").iterdir())
    with Checkpoints(tmp_path / "c", source) as one:
        assert one.newest() is None and list((tmp_path / "c").iterdir()) == []


@pytest.mark.parametrize("full", [0, 1])
def test_a_full_disk_of_one_process_is_said_by_all(source: Path, tmp_path: Path, full: int) -> None:
    """In processes, since the limit is of a process."""
    told, whole, model = shares(1, 2), snapshot(source, 1), load(source).config
    child = os.fork()
    mine = 1 - full if child else full
    share = told[mine]
    try:
        said = ""
        with Checkpoints(tmp_path, source, share=share, asynchronous=bool(child)) as checkpoints:
            if not child:
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            try:
                checkpoints.save(share_of(whole, model, share))
                checkpoints.wait()
            except FileError as error:
                said = str(error)
        if not child:
            os._exit(0 if "File too large" in said and "nothing was kept" in said else 1)
    finally:
        if not child:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert "could not do its part" in said and f"rank {full}" in said and "File too large" in said
    assert list(tmp_path.iterdir()) == []


def test_after_a_failure_the_next_one_succeeds(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, model = shares(2, 2), load(source).config
    with ranks(tmp_path, source, told, keep=1) as every:
        save(every, told, snapshot(source, 1))
        with monkeypatch.context() as patch:
            patch.setattr("mindport.training.checkpoint.write_share.write_manifest", refuse)
            for checkpoints, share in zip(every, told, strict=True):
                checkpoints.save(share_of(snapshot(source, 2), model, share))
            said = errors(every)
        assert all("free some space" in str(error) for error in said), said
        assert files(tmp_path) == ["step-00000001"]
        save(every, told, snapshot(source, 3))
    assert files(tmp_path) == ["step-00000003"]


def refuse(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_shares_that_do_not_fit_together_are_no_checkpoint(source: Path, tmp_path: Path) -> None:
    whole, model = snapshot(source, 1), load(source).config
    told = shares(1, 2)
    twice = [told[0], Share(1, 2, 1, job=told[1].job, patience=20.0)]
    local = [share_of(whole, model, share) for share in twice]
    wrong = {
        "not this process's share": Snapshot(1, whole.weights, whole.state, whole.about),
        "not the parameters": Snapshot(1, {"x": np.zeros(1)}, {}, whole.about),
        "names of weights": Snapshot(1, local[1].weights, {"norm.weight": np.zeros(1)}, whole.about),
        "disagree on an array": Snapshot(1, local[1].weights, {
            **local[1].state, "adam.m.embed.weight": local[1].state["adam.m.embed.weight"],
            "adam.m.blocks.0.attn.q.weight": local[1].state["adam.m.blocks.0.attn.q.weight"].astype(np.float16)},
            whole.about),
        "do not make whole arrays": Snapshot(1, local[1].weights, {
            name: x for name, x in local[1].state.items() if name != "adam.m.blocks.0.attn.q.weight"}, whole.about),
    }  # fmt: skip
    for what, second in wrong.items():
        with ranks(tmp_path, source, twice) as every:
            every[0].save(local[0])
            try:
                every[1].save(second)
                own = None
            except UsageError as error:
                own = error
            said = [*errors(every), own]
        assert any(error is not None and what in str(error) for error in said), (what, said)
        assert said[0] is not None and list(tmp_path.iterdir()) == [], what


def test_a_share_of_another_training_is_not_taken(source: Path, tmp_path: Path) -> None:
    """One that outlived its launcher writes into a directory of its own, which nobody seals."""
    told = [*shares(1, 2, patience=0.2), *shares(1, 2, job="older", patience=0.2)]
    whole, model = snapshot(source, 1), load(source).config
    with ranks(tmp_path, source, [told[0], told[3]]) as every:
        every[0].save(share_of(whole, model, told[0]))
        every[1].save(share_of(whole, model, told[3]))
        said = errors(every)
    assert "nothing from rank 1" in said[0].got and "rank 0" in said[1].got
    with Checkpoints(tmp_path, source) as one:
        assert one.newest() is None and list(tmp_path.iterdir()) == []


def test_copies_of_a_model_do_not_ask_the_device(source: Path, tmp_path: Path) -> None:
    class Asked(dict):
        def __getitem__(self, name: str) -> np.ndarray:
            raise AssertionError("a second replica copies nothing")

    told, whole, model = shares(2, 1), snapshot(source, 1), load(source).config
    with ranks(tmp_path, source, told) as every:
        every[0].save(share_of(whole, model, told[0]))
        every[1].save(Snapshot(1, Asked(whole.weights), Asked(whole.state), whole.about))
        assert errors(every) == [None, None]
