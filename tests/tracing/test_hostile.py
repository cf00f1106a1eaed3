"""Traces from elsewhere: another version, edited, damaged, empty, with names that would like to be paths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mindport import cli
from mindport.errors import FileError, MappingError, MindPortError, UsageError
from mindport.parity import trace as traces
from mindport.parity.trace import ARRAYS, MANIFEST, Trace, read_trace, write_trace
from mindport.tracing import compare_traces, summarise, trace

X = np.arange(12, dtype=np.float32).reshape(3, 4)
FACTS = {"shape": [3, 4], "dtype": "float32", "digest": "d", "mean": 1.0, "std": 1.0, "smallest": 0.0, "largest": 1.0}


@pytest.fixture
def good(tmp_path):
    about = {"framework": "torch", "order": ["out/fc"], "backward": [], "parameters": {"w": FACTS}}
    return write_trace(Trace(about, {"out/fc": X, "grad/w": X}), tmp_path / "good")


def seal(path: Path, change) -> None:
    """Change a manifest, and its digest with it."""
    manifest = json.loads((path / MANIFEST).read_text())
    del manifest["digest"]
    change(manifest)
    (path / MANIFEST).write_text(json.dumps({**manifest, "digest": traces.digest(manifest)}))


SEALED = {
    "another version": lambda m: m.update(version=99),
    "no order": lambda m: m.update(order=5),
    "an order of numbers": lambda m: m.update(order=[1, 2]),
    "an order of what is not there": lambda m: m.update(order=["out/gone"]),
    "a way back of what is not there": lambda m: m.update(backward=["back/gone"]),
    "parameters that are none": lambda m: m.update(parameters=[1]),
    "figures that are none": lambda m: m.update(parameters={"w": {"digest": "e", "shape": "x", "dtype": 1}}),
    "figures in words": lambda m: m.update(parameters={"w": {**FACTS, "digest": "e", "mean": "lots"}}),
    "an array that is not there": lambda m: m["arrays"].update(x={"at": "gone", "shape": [1], "dtype": "float32"}),
    "another shape": lambda m: m["arrays"]["out/fc"].update(shape=[4, 3]),
    "another dtype": lambda m: m["arrays"]["out/fc"].update(dtype="bfloat16"),
    "an entry that is none": lambda m: m["arrays"].update(x=3),
    "arrays that are none": lambda m: m.update(arrays=[]),
    "an exact value of nothing": lambda m: m["arrays"].update({"missed/y": m["arrays"]["out/fc"]}),
}


@pytest.mark.parametrize("case", SEALED)
def test_a_manifest_that_lies_is_refused(case, good, tmp_path, capfd):
    other = write_trace(read_trace(good), tmp_path / "other")
    seal(good, SEALED[case])
    with pytest.raises(FileError):
        compare_traces(other, good)
    assert cli.main(["compare", str(good), str(other)]) == 2
    assert "Traceback" not in capfd.readouterr().err


def test_a_digest_is_not_forged_by_accident(good):
    manifest = json.loads((good / MANIFEST).read_text())
    (good / MANIFEST).write_text(json.dumps({**manifest, "seed": 4}))
    with pytest.raises(FileError, match="its manifest was changed"):
        compare_traces(good, good)


def test_arrays_that_are_no_safetensors_are_refused(good):
    (good / ARRAYS).write_bytes(b"\x08\0\0\0\0\0\0\0notjson!")
    seal(good, lambda m: m["files"][ARRAYS].update(sha256=traces.sha256(good / ARRAYS)))
    with pytest.raises(FileError, match="cannot be read"):
        read_trace(good)


@pytest.mark.parametrize("what", ["nothing", "a file", "an empty directory"])
def test_what_is_no_trace_is_refused(what, good, tmp_path):
    path = tmp_path / "x"
    if what == "a file":
        path.write_text("x")
    elif what != "nothing":
        path.mkdir()
    with pytest.raises(FileError):
        compare_traces(good, path)


def test_empty_traces_have_nothing_in_common():
    with pytest.raises(MappingError, match="A makes nothing"):
        compare_traces(Trace({}), Trace({}))


NAMES = ("out/../../etc/passwd", "out//etc/x", "out/a/b/c", "out/..", "out/" + "x" * 100_000, "out/a.b.c",
         "out/ü\n\t'\"", "out/\\..\\x", "out/C:", "out/#1", "out/[", "out/{i}")  # fmt: skip


def test_names_never_become_paths(tmp_path):
    path = write_trace(Trace({"order": list(NAMES)}, dict.fromkeys(NAMES, X)), tmp_path / "deep" / "trace")
    assert sorted(file.name for file in path.iterdir()) == [ARRAYS, MANIFEST]
    assert [file.name for file in tmp_path.iterdir()] == ["deep"]
    found = compare_traces(path, path)
    assert found.ok and len(found.rows) == len(NAMES)
    assert found.text(3) and found._repr_html_() and summarise(path).text(3)


def test_shapes_that_disagree_are_a_verdict_and_not_an_error(good):
    other = read_trace(good)
    other.arrays["out/fc"] = X[:2]
    found = compare_traces(good, other)
    assert not found.ok and "shape (3, 4) in A, (2, 4) in B" in found.headline()
    assert json.dumps(found.as_dict(), allow_nan=False)


def test_bfloat16_and_scalars_come_back_bit_for_bit(tmp_path):
    bits = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    arrays = {"out/half": bits.view(traces.BFLOAT16), "out/bits": bits, "loss": np.array(1.5, np.float32),
              "out/empty": np.zeros((0, 3), np.float16), "out/yes": np.array([True, False])}  # fmt: skip
    read = read_trace(write_trace(Trace({}, arrays), tmp_path / "t"))
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("limit", [-1.0, float("nan"), float("inf")])
def test_a_limit_that_is_none(limit, good):
    with pytest.raises(UsageError, match="0 or more"):
        compare_traces(good, good, limit=limit)


@pytest.mark.parametrize("padding", ["gone", "out/fc=x", "gone=1", "=", ""])
def test_a_padding_that_is_none(padding, good):
    with pytest.raises(UsageError, match="no such array"):
        compare_traces(good, good, padding=padding)


@pytest.mark.parametrize("what", ["x.py", "x.py:", "x.py:a b", "gone.py:build", "x.txt.py.:f"])
def test_what_names_no_function(what, tmp_path):
    with pytest.raises(MindPortError):
        trace(what, tmp_path / "t")


def test_options_of_the_other_kind_are_refused(tmp_path):
    with pytest.raises(UsageError, match="an option is not for a model's directory"):
        trace(tmp_path, tmp_path / "t", seed=3)
    with pytest.raises(UsageError, match=r"an option is not for FILE\.py:FUNCTION"):
        trace("x.py:f", tmp_path / "t", layers=2)
    with pytest.raises(UsageError, match="no such framework"):
        trace(f"{__file__}:f", tmp_path / "t", framework="jax")
