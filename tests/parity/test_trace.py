"""A trace comes back as it was, and says what is wrong with it when it is not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from mindport.errors import FileError
from mindport.parity import trace
from mindport.parity.trace import ARRAYS, MANIFEST, VERSION, Trace, read_trace, write_trace

ARRAY = st.one_of(
    arrays_of.arrays(np.float32, arrays_of.array_shapes(max_dims=3, max_side=4)),
    arrays_of.arrays(np.int64, arrays_of.array_shapes(max_dims=2, max_side=4)),
)
NAMES = st.text("abc/._", min_size=1, max_size=8).filter(lambda name: not name.startswith("missed/"))


@settings(deadline=None)
@given(st.dictionaries(NAMES, ARRAY, max_size=6))
def test_arrays_come_back_bit_for_bit(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("trace") / "trace"
    read = read_trace(write_trace(Trace({"seed": 1}, content), path))
    assert read.arrays.keys() == content.keys()
    assert all(read[name].tobytes() == array.tobytes() for name, array in content.items())
    assert read.about["seed"] == 1


def test_a_transposed_array_comes_back(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert np.array_equal(read_trace(write_trace(Trace({}, {"x": array}), tmp_path / "t"))["x"], array)


def test_equal_arrays_are_stored_once(tmp_path):
    array = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    one = write_trace(Trace({}, {"a": array}), tmp_path / "one")
    two = write_trace(Trace({}, {"a": array, "b": array.copy()}), tmp_path / "two")
    assert (two / ARRAYS).stat().st_size == (one / ARRAYS).stat().st_size


def test_the_exact_value_survives_in_two_halves(tmp_path):
    exact = np.random.default_rng(0).standard_normal((3, 5)) * 1e4
    trace = Trace({})
    trace.add("x", exact.astype(np.float32), exact)
    found = read_trace(write_trace(trace, tmp_path / "t")).exact("x")
    assert np.abs(found - exact).max() < 1e-13 * 1e5
    assert trace.exact("x") is not None
    assert Trace({}, {"y": exact}).exact("y") is None


@pytest.fixture
def written(tmp_path):
    return write_trace(Trace({}, {"x": np.ones(3, np.float32)}), tmp_path / "trace")


def change(path, **values):
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**manifest, **values}))


def test_another_version_says_how_to_make_it_again(written):
    change(written, version=0)
    with pytest.raises(FileError, match=rf"another format version(.|\n)*expected: *{VERSION}(.|\n)*mindport trace"):
        read_trace(written)


def test_a_file_that_is_no_trace(written):
    change(written, format="something else")
    with pytest.raises(FileError, match="not a trace"):
        read_trace(written)


def test_a_flipped_bit(written):
    content = bytearray((written / ARRAYS).read_bytes())
    content[-1] ^= 1
    (written / ARRAYS).write_bytes(content)
    with pytest.raises(FileError, match="damaged"):
        read_trace(written)


def test_a_missing_file(written):
    (written / ARRAYS).unlink()
    with pytest.raises(FileError, match="missing"):
        read_trace(written)


def test_a_manifest_that_lacks_something(written):
    manifest = json.loads((written / MANIFEST).read_text())
    del manifest["files"]
    (written / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(FileError, match="damaged"):
        read_trace(written)


def seal(path, **values):
    """Change a manifest and its digest with it, as a careless writer could."""
    manifest = {**json.loads((path / MANIFEST).read_text()), **values}
    del manifest["digest"]
    (path / MANIFEST).write_text(json.dumps({**manifest, "digest": trace.digest(manifest)}))


def test_a_manifest_that_disagrees(written):
    seal(written, arrays={"x": {"at": "x", "shape": [4], "dtype": "float32"}})
    with pytest.raises(FileError, match="disagree"):
        read_trace(written)


EDITS = {
    "a value": lambda m: m["model"].update(hidden_size=8),
    "a number's kind": lambda m: m.update(loss=1),
    "another seed": lambda m: m.update(seed=2),
    "a key more": lambda m: m.update(extra=None),
    "a key less": lambda m: m.pop("seed"),
    "an array's name": lambda m: m["arrays"].update(y=m["arrays"].pop("x")),
    "an array less": lambda m: m["arrays"].pop("x"),
    "the digest of the arrays": lambda m: m["files"][ARRAYS].update(sha256="0" * 64),
    "no digest": lambda m: m.pop("digest"),
    "another digest": lambda m: m.update(digest="0" * 64),
}


@pytest.mark.parametrize("edit", EDITS)
def test_any_edit_of_the_manifest_is_refused(edit, tmp_path):
    about = {"seed": 1, "loss": 1.0, "model": {"hidden_size": 4, "ids": (1, 2)}, "paths": {"a": "é"}}
    path = write_trace(Trace(about, {"x": np.ones(3, np.float32)}), tmp_path / "trace")
    read = read_trace(path)
    assert read.about["model"] == {"hidden_size": 4, "ids": [1, 2]} and "digest" not in read.about
    manifest = json.loads((path / MANIFEST).read_text())
    EDITS[edit](manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(FileError, match=r"damaged(.|\n)*mindport trace"):
        read_trace(path)


def test_a_trace_that_was_read_can_be_written_again(written, tmp_path):
    again = read_trace(write_trace(read_trace(written), tmp_path / "again"))
    assert np.array_equal(again["x"], np.ones(3, np.float32))


def test_an_array_that_is_not_there(written):
    with pytest.raises(FileError, match="no such array"):
        read_trace(written)["y"]


def test_a_folder_of_something_else_is_never_overwritten(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match=r"an earlier result only(.|\n)*without trace\.json"):
        write_trace(Trace({}, {}), tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    for seed in (1, 2):
        write_trace(Trace({"seed": seed}, {}), tmp_path / "trace", overwrite=True)
    assert read_trace(tmp_path / "trace").about["seed"] == 2
