"""What turns the proof red, what is refused before anything is written, and what MindSpore does that one must know."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mindport import cli
from mindport.errors import BackendError, ConfigError, FileError, MindPortError, UsageError
from mindport.mindformers import parse_layout
from mindport.parallel.reshard import Entry, reshard, stream
from mindport.parallel.reshard.manifest import digest_of
from mindport.parallel.reshard.places import place
from mindport.parallel.reshard.side import MindSporeSide
from mindport.parallel.reshard.sink import Sink, rank_layouts
from mindport.parallel.reshard.stream import Arrangement, write_strategy
from tests.parallel.reshard.cases import moved, over, rank_arrays, same


def test_a_strategy_with_a_wrong_axis_turns_the_proof_red(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = stream.device_layout

    def wrong(entry: Entry, *rest: Any) -> Any:
        tensor_map, *cut = right(entry, *rest)
        return (tensor_map[::-1] if entry.name.endswith("attn.q.weight") else tensor_map, *cut)

    monkeypatch.setattr(stream, "device_layout", wrong)
    assert cli.main(["reshard", str(llama), str(tmp_path / "out"), "--to", "tp2", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"] and {what.split(" is ")[0] for what in answer["wrong"]} == {
        f"rank {rank}: blocks.{layer}.attn.q.weight" for rank in range(2) for layer in range(4)
    }
    assert list(tmp_path.iterdir()) == []


def test_a_strategy_of_another_model_does_too(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore copies what it does not find in a strategy, whole, without a word."""
    names = {"blocks.1.mlp.up.weight": "blocks.9.mlp.up.weight"}
    ask = MindSporeSide.ask

    def other(self: MindSporeSide, do: str, **order: Any) -> None:
        if do == "strategy":
            order["stages"] = {rank: {names.get(name, name): at for name, at in stage.items()}
                               for rank, stage in order["stages"].items()}  # fmt: skip
        ask(self, do, **order)

    monkeypatch.setattr(MindSporeSide, "ask", other)
    result = reshard(llama, tmp_path / "out", "tp2", progress=False)
    assert not result.ok and result.exit_code == 1 and not (tmp_path / "out").exists()
    assert all("blocks.1.mlp.up.weight is" in what for what in result.wrong) and len(result.wrong) == 2


def test_a_file_that_does_not_hold_what_was_meant_turns_it_red(tmp_path: Path) -> None:
    entries = {"x": Entry("x", "F32", (4, 3), 0, "first")}
    places = {"x": place(entries["x"], parse_layout("tp2"), (1,), whole_vocabulary=False, threshold=0)}
    sink = Sink(tmp_path, rank_layouts(entries, places, over("tp2")))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    sink.write(0, "x", x[:2], x[:2])
    sink.write(1, "x", np.flip(x[2:]), x[2:])
    sink.close()
    assert sink.prove() == ["rank 1: x does not read back"]


def _flip(directory: Path) -> None:
    path = directory / "rank_1/checkpoint_1.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.unlink()
    path.write_bytes(content)


def _edit(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = directory / "mindport-reshard.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped byte": (_flip, "changed after it was written"),
    "a missing rank": (lambda d: shutil.rmtree(d / "rank_3"), "file of the manifest is missing"),
    "a missing strategy": (lambda d: (d / "strategy.ckpt").unlink(), "file of the manifest is missing"),
    "another format": (lambda d: _edit(d, lambda v: v.update(format=7)), "another format"),
    "no layout": (lambda d: _edit(d, lambda v: v.update(layout="dp0")), "manifest is damaged"),
    "an unknown kind": (lambda d: _edit(d, lambda v: v["arrays"]["norm.weight"].update(kind="?")), "is damaged"),
    "a shape below 0": (lambda d: _edit(d, lambda v: v["arrays"]["norm.weight"].update(shape=[-1])), "is damaged"),
    "no such axis": (lambda d: _edit(d, lambda v: v["arrays"]["norm.weight"]["place"].update(axis=1)), "is damaged"),
    "no such stage": (lambda d: _edit(d, lambda v: v["arrays"]["norm.weight"]["place"].update(stages=[9])), "damaged"),
    "no shards": (lambda d: _edit(d, lambda v: v["arrays"]["norm.weight"]["place"].update(shards=0)), "is damaged"),
    "another layout": (lambda d: _edit(d, lambda v: v.update(layout="tp2")), "not those of the layout"),
    "another place": (lambda d: _edit(d, lambda v: v["arrays"]["norm.weight"]["place"].update(axis=0)),
                      "does not hold"),
    "a path that leads out": (lambda d: _edit(d, lambda v: v["files"].update({"../x": v["files"]["strategy.ckpt"]})),
                              "missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_directory_is_refused(name: str, halves: Path, tmp_path: Path) -> None:
    damage, said = DAMAGE[name]
    shutil.copytree(halves, tmp_path / "src")
    damage(tmp_path / "src")
    with pytest.raises(FileError, match=said):
        reshard(tmp_path / "src", tmp_path / "out", "dp1", progress=False)
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".*"))


def test_copies_that_differ_are_refused(halves: Path, tmp_path: Path) -> None:
    """Digests fit, and still nobody can say which of two copies is the training's."""
    source = tmp_path / "src"
    shutil.copytree(halves, source)
    path = source / "rank_2/checkpoint_2.safetensors"
    arrays = load_file(path)
    arrays["norm.weight"] = arrays["norm.weight"] * np.array(2, arrays["norm.weight"].dtype)
    path.unlink()
    save_file(arrays, path, metadata={"format": "ms"})
    _edit(source, lambda v: v["files"].update({"rank_2/checkpoint_2.safetensors": digest_of(path)}))
    with pytest.raises(FileError, match="hold copies of one part differ") as refused:
        reshard(source, tmp_path / "out", "dp1", progress=False)
    assert "norm.weight of rank 0 and of rank 2" in str(refused.value)


WRONG: dict[str, tuple[type[MindPortError], str, dict[str, Any]]] = {
    "heads": (ConfigError, "cannot be cut", {"to": "tp4"}),
    "stages": (ConfigError, "cannot be cut", {"to": "pp5"}),
    "not a layout": (UsageError, "not a layout", {"to": "tp"}),
    "too many ranks": (UsageError, "too many", {"to": "dp999999"}),
    "interleaved": (UsageError, "interleaved", {"to": "pp2,v2"}),
    "interleaved source": (UsageError, "interleaved", {"to": "dp1", "layout": "pp2,v2"}),
    "whole already": (UsageError, "one device already", {"to": "dp1,sp"}),
    "another layout": (UsageError, "another layout", {"to": "tp2", "layout": "dp2"}),
    "format": (UsageError, "no such format", {"to": "tp2", "file_format": "npz"}),
    "threshold": (UsageError, "0 or more", {"to": "tp2", "threshold": -1}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_makes_no_sense_is_refused_before_mindspore_is_asked(
    name: str, llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MindSporeSide, "ask", lambda *_, **__: pytest.fail("asked"))
    error, said, options = WRONG[name]
    with pytest.raises(error, match=said):
        reshard(llama, tmp_path / "out", progress=False, **options)
    assert list(tmp_path.iterdir()) == []


def test_places_that_are_not_free_are_refused(llama: Path, halves: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("x")
    for src, dst, options, said in (
        (llama, llama / "inside", {}, "lie apart"),
        (llama, llama.parent, {}, "lie apart"),
        (tmp_path / "none", tmp_path / "out", {}, "no such directory"),
        (tmp_path / "mine", tmp_path / "out", {}, "neither a MindPort directory"),
        (llama, tmp_path / "mine", {"overwrite": True}, "earlier result only"),
        (llama, tmp_path / "mine", {}, "there"),
    ):
        with pytest.raises(MindPortError, match=said):
            reshard(src, dst, "dp2", progress=False, **options)
    with pytest.raises(UsageError, match="of safetensors"):
        reshard(halves, tmp_path / "out", "dp1", file_format="ckpt", progress=False)
    assert (tmp_path / "mine/thesis.txt").read_text() == "x" and not (tmp_path / "out").exists()


def test_an_earlier_result_is_replaced_when_asked(halves: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    moved(halves, target, "tp2")
    with pytest.raises(FileError):
        reshard(halves, target, "dp2", progress=False)
    moved(halves, target, "dp1", overwrite=True)
    moved(halves, target, "dp2,tp2", overwrite=True)
    assert all(map(same, rank_arrays(target), rank_arrays(halves)))


def test_mindspore_loses_a_tied_embedding_that_we_do_not(tmp_path: Path) -> None:
    """Why everything goes by way of the whole, with no strategy for it: given one, MindSpore writes the embedding to
    the first stage only. The day this fails, `stream` may ask for less."""
    entries = {"e": Entry("e", "F32", (4, 2), 0, "ends"), "n": Entry("n", "F32", (2,), None, "last")}
    places = {name: place(entry, parse_layout("tp2,pp2"), (1, 1), whole_vocabulary=False, threshold=0)
              for name, entry in entries.items()}  # fmt: skip
    at, names = Arrangement(places, over("tp2,pp2")), list(entries)
    (tmp_path / "src/rank_0").mkdir(parents=True)
    x = {"e": np.arange(8, dtype=np.float32).reshape(4, 2), "n": np.ones(2, np.float32)}
    save_file(x, tmp_path / "src/rank_0/x.safetensors")
    with MindSporeSide() as side:
        after = write_strategy(side, tmp_path / "after.ckpt", entries, at, tmp_path / "a")
        one = {0: {name: ([-1] * len(entry.shape), 0, 0) for name, entry in entries.items()}}
        side.ask("strategy", path=tmp_path / "one.ckpt", matrix=[1, 1], stages=one, folder=tmp_path / "o")
        for name, before in (("with", tmp_path / "one.ckpt"), ("without", None)):
            side.ask("transform", source=tmp_path / "src", target=tmp_path / name, before=before, after=after,
                     names=names)  # fmt: skip
        with pytest.raises(BackendError, match="refuses"):
            side.ask(
                "transform", source=tmp_path / "none", target=tmp_path / "x", before=None, after=after, names=["e"]
            )
    assert [sorted(held) for held in rank_arrays(tmp_path / "with")] == [["e"], ["e"], ["n"], ["n"]]
    assert [sorted(held) for held in rank_arrays(tmp_path / "without")] == [["e"], ["e"], ["e", "n"], ["e", "n"]]


def test_a_process_that_ends_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindport.parallel.reshard.side.MODULE", "this_module_is_not_there")
    with MindSporeSide() as side, pytest.raises(BackendError, match="ended") as ended:
        side.ask("convert", source="a", target="b")
    assert "this_module_is_not_there" in str(ended.value)
