"""Files are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.errors import FileError
from mindport.files import (
    MARK,
    atomic_directory,
    atomic_file,
    check_writable,
    read_json,
    sha256,
    sweep,
    write_json,
    write_text,
)  # fmt: skip

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.name.endswith((".part", ".old")))


@given(JSON)
def test_json_is_read_back_equal(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("json") / "value.json"
    assert read_json(write_json(path, value)) == value


def test_half_a_character_survives(tmp_path):
    """A lone surrogate: what Python makes of a file name that is not UTF-8."""
    assert read_json(write_json(tmp_path / "a.json", {"\ud800é": "\udcff"})) == {"\ud800é": "\udcff"}


def test_nan_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", float("nan"))
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_writing_keeps_the_old_file(tmp_path):
    path = write_text(tmp_path / "a.txt", "old")
    with pytest.raises(ZeroDivisionError), atomic_file(path) as aside:
        aside.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and left_behind(tmp_path) == []


def test_an_interrupt_while_writing_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic_file(tmp_path / "a") as aside:
        aside.write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_file_has_the_rights_that_the_user_gives_new_files(tmp_path):
    old = os.umask(0o027)
    try:
        path = write_text(tmp_path / "new" / "a.txt", "x")
        with atomic_directory(tmp_path / "folder") as aside:
            (aside / "b").touch()
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(old)


def test_a_full_disk_is_one_error_with_the_path(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match="No space left") as caught:
        write_text(tmp_path / "a.txt", "x")
    assert caught.value.where == tmp_path / "a.txt" and list(tmp_path.iterdir()) == []
    with pytest.raises(FileError, match="No space left"), atomic_directory(tmp_path / "folder") as aside:
        (aside / "b").touch()
    assert list(tmp_path.iterdir()) == []


def test_a_place_is_looked_at_before_the_work(tmp_path):
    check_writable(tmp_path / "new" / "file.json")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "new", tmp_path / "file" / "below.json", tmp_path / ("x" * 300) / "file.json"):
        with pytest.raises(FileError):
            check_writable(path)


def test_a_parent_that_is_a_file_is_a_file_error(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(FileError):
        write_text(tmp_path / "a" / "b.txt", "x")


def test_a_directory_appears_whole(tmp_path):
    with atomic_directory(tmp_path / "model") as aside:
        (aside / "deep").mkdir()
        (aside / "deep" / "a").write_text("x")
        assert not (tmp_path / "model").exists()
    assert (tmp_path / "model" / "deep" / "a").read_text() == "x" and left_behind(tmp_path) == []


def test_an_error_keeps_the_old_directory(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").touch()
    with pytest.raises(ZeroDivisionError), atomic_directory(tmp_path / "model", overwrite=True) as aside:
        (aside / "new").touch()
        raise ZeroDivisionError
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["old"] and left_behind(tmp_path) == []


def test_a_directory_is_replaced_only_when_told(tmp_path):
    (tmp_path / "model").mkdir()
    with atomic_directory(tmp_path / "model") as aside:  # an empty one is as good as none
        (aside / "a").touch()
    with pytest.raises(FileError, match="there already"), atomic_directory(tmp_path / "model"):
        raise AssertionError("the body must not run")
    with atomic_directory(tmp_path / "model", overwrite=True) as aside:
        (aside / "b").touch()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["b"] and left_behind(tmp_path) == []


def test_a_failed_swap_puts_the_old_directory_back(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").touch()
    real, calls = os.replace, []

    def second_fails(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", second_fails)
    with pytest.raises(FileError, match="Input/output"), atomic_directory(tmp_path / "model", overwrite=True) as aside:
        (aside / "new").touch()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["old"] and left_behind(tmp_path) == []


def test_a_file_in_the_way_of_a_directory_is_refused_or_replaced(tmp_path):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(FileError, match="there already"), atomic_directory(tmp_path / "model"):
        pass
    with pytest.raises(FileError, match="not a directory"), atomic_directory(tmp_path / "model", overwrite=True):
        pass
    assert (tmp_path / "model").read_text() == "a file"


APPEARED = {
    "a directory with a file": lambda path: (path.mkdir(), (path / "thesis").touch()),
    "a file": lambda path: path.write_text("mine"),
    "a link": lambda path: path.symlink_to("elsewhere"),
}


@pytest.mark.parametrize("what", APPEARED)
def test_what_appears_meanwhile_is_kept(what, tmp_path):
    path = tmp_path / "model"
    with pytest.raises(FileError, match=r"appeared meanwhile(.|\n)*do:"), atomic_directory(path) as aside:
        (aside / "new").touch()
        APPEARED[what](path)
        before = sorted(tmp_path.rglob("[!.]*"))
    assert sorted(tmp_path.rglob("[!.]*")) == [p for p in before if ".part" not in str(p)]
    assert left_behind(tmp_path) == []


def test_an_empty_directory_that_appears_is_as_good_as_none(tmp_path):
    with atomic_directory(tmp_path / "model") as aside:
        (aside / "new").touch()
        (tmp_path / "model").mkdir()
    assert (tmp_path / "model" / "new").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_to_a_directory_is_followed(overwrite, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    if overwrite:
        (tmp_path / "real" / "old").touch()
    with atomic_directory(tmp_path / "link", overwrite=overwrite) as aside:
        (aside / "new").touch()
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["new"] and left_behind(tmp_path) == []
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("name", [".", ".."])
def test_the_working_directory_is_no_target(name, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(FileError, match=r"working directory(.|\n)*do:"), atomic_directory(Path(name)):
        raise AssertionError("the body must not run")
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_a_name_too_long_says_what_to_do(tmp_path):
    with pytest.raises(FileError, match=r"nothing was kept(.|\n)*do: +choose a shorter name"):
        write_text(tmp_path / ("a" * 300), "x")


def test_a_key_that_stands_twice_is_refused_by_its_name(tmp_path):
    (tmp_path / "a.json").write_text('{"x": [{"hidden": 1, "b": 2, "hidden": 3}]}')
    with pytest.raises(FileError, match="'hidden' stands there twice"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("read", [read_json, sha256])
def test_a_pipe_is_refused_and_not_read(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe or device"):
        read(tmp_path / "pipe")


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"a": }', b"\xff\xfe{", b"[" * 100_000, b'{"a": ' + b"9" * 5001 + b"}"]
)
def test_damaged_json_is_a_file_error_with_the_path(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_json(tmp_path / "a.json")
    assert caught.value.where == tmp_path / "a.json"
    assert caught.value.do or "utf-8" in str(caught.value.got)


def test_missing_json_says_missing(tmp_path):
    with pytest.raises(FileError, match="missing"):
        read_json(tmp_path / "a.json")
    with pytest.raises(FileError, match="cannot be read"):
        read_json(tmp_path)


@given(st.binary(max_size=100))
def test_sha256_is_that_of_the_bytes(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "file"
    path.write_bytes(content)
    assert sha256(path) == hashlib.sha256(content).hexdigest()


def test_sha256_of_a_missing_file_is_a_file_error(tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        sha256(tmp_path / "nothing")


def left(folder, name=".model.x.part", mark=None):
    """What a process that died may have left."""
    part = folder / name
    (part / "deep").mkdir(parents=True)
    (part / "deep/file").write_text("half")
    if mark is not None:
        (part / MARK).write_text(mark)
    return part


OURS = f"{socket.gethostname()} 1\n"


def test_what_bears_our_mark_and_no_lock_is_swept(tmp_path):
    parts = [left(tmp_path, f".model.{i}.part", OURS) for i in range(2)]
    assert sweep(tmp_path / "model") == parts and not list(tmp_path.iterdir())


@pytest.mark.parametrize("mark", [None, "", "another-machine 1\n", "\udcff"])
def test_what_may_be_somebody_elses_stays(mark, tmp_path):
    part = left(tmp_path, mark=None if mark == "\udcff" else mark)
    if mark == "\udcff":
        (part / MARK).write_bytes(b"\xff")
    assert sweep(tmp_path / "model") == [] and (part / "deep/file").exists()


def test_another_users_stays(tmp_path, monkeypatch):
    part = left(tmp_path, mark=OURS)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert sweep(tmp_path / "model") == [] and part.exists()


@pytest.mark.parametrize("name", [".model.x.old", ".models.x.part", ".mode.x.part", "model.x.part"])
def test_another_name_stays(name, tmp_path):
    part = left(tmp_path, name, OURS)
    assert sweep(tmp_path / "model") == [] and part.exists()


def test_links_are_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    part = left(tmp_path / "elsewhere", mark=OURS)
    (tmp_path / ".model.link.part").symlink_to(part)
    linked = left(tmp_path, ".model.mark.part")
    (linked / MARK).symlink_to(part / MARK)
    assert sweep(tmp_path / "model") == [] and part.exists() and linked.exists()


def test_a_directory_being_written_is_locked_and_its_mark_does_not_stay(tmp_path):
    with atomic_directory(tmp_path / "model") as aside:
        (aside / "file").write_text("half")
        assert (aside.parent / MARK).read_text() == f"{socket.gethostname()} {os.getpid()}\n"
        assert [path.name for path in aside.iterdir()] == ["file"]
        assert sweep(tmp_path / "model") == [] and (aside / "file").exists()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["file"]


def test_where_the_disk_knows_no_locks_nothing_is_marked(tmp_path, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with atomic_directory(tmp_path / "model") as aside:
        assert not (aside.parent / MARK).exists()
    part = left(tmp_path, mark=OURS)
    assert sweep(tmp_path / "model") == [] and part.exists()
