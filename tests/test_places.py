"""A relative path means the same folder in every editor."""

from __future__ import annotations

from pathlib import Path

from mindport import places
from mindport.places import REPOSITORY, rooted


def test_a_relative_path_begins_at_the_repository():
    assert rooted("runs/manual") == REPOSITORY / "runs" / "manual"
    assert (REPOSITORY / "notebooks").is_dir()


def test_an_absolute_path_and_home_stay(tmp_path):
    assert rooted(tmp_path) == tmp_path
    assert rooted("~/x") == Path.home() / "x"


def test_without_a_repository_it_begins_at_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "REPOSITORY", tmp_path)
    assert rooted("x") == Path.cwd() / "x"
