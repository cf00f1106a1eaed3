"""The format, held to the safetensors library in both directions; every damage is named."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save, save_file

from mindport.errors import FileError
from mindport.weights.dtypes import NUMPY, code_of
from mindport.weights.safetensors_io import Writer, fingerprint, make_header, parse_header, read_header, read_tensor

SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
TENSORS = st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda n: n != "__metadata__"),
                          st.tuples(st.sampled_from(list(NUMPY)), SHAPES), min_size=1, max_size=6)  # fmt: skip


def _fill(specs: dict[str, tuple[str, tuple[int, ...]]]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: np.array(random.standard_normal(shape), NUMPY[code]) for name, (code, shape) in specs.items()}


@given(specs=TENSORS)
def test_a_new_header_is_the_librarys_own(specs: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    arrays = _fill(specs)
    header = make_header(specs, {"format": "pt"})
    theirs = save(arrays, metadata={"format": "pt"})
    assert theirs[8 : header.data] == header.text and len(theirs) == header.size
    assert parse_header(header.text, Path("x")) == header


def test_the_library_reads_what_the_writer_wrote(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    arrays = _fill({"b": ("BF16", (3, 5)), "a": ("F32", (2, 2)), "ü": ("F16", (7,)), "scalar": ("F32", ())})
    writer = Writer(path, make_header({n: (code_of(x), x.shape) for n, x in arrays.items()}, {}))
    for name in reversed(arrays):
        writer.write(name, arrays[name])
    writer.close()
    found = load_file(path)
    assert found.keys() == arrays.keys()
    # bfloat16 by its bits: the library gives the type of whichever package registered the name last
    assert all(found[n].dtype.name == x.dtype.name and found[n].tobytes() == x.tobytes() for n, x in arrays.items())
    assert all(found[n].shape == x.shape for n, x in arrays.items())


def test_a_transposed_view_is_written_as_its_values(tmp_path: Path) -> None:
    path, x = tmp_path / "m.safetensors", np.arange(6, dtype=np.float32).reshape(2, 3)
    writer = Writer(path, make_header({"x": ("F32", (3, 2))}, {}))
    writer.write("x", x.T)
    writer.close()
    assert np.array_equal(load_file(path)["x"], x.T)


def test_the_reader_reads_what_the_library_wrote(tmp_path: Path) -> None:
    path, arrays = tmp_path / "m.safetensors", _fill({"b": ("BF16", (3, 5)), "a": ("F32", (2, 2)), "c": ("F16", (7,))})
    save_file(arrays, path, metadata={"format": "pt"})
    header = read_header(path)
    assert header.metadata == {"format": "pt"}
    for name, x in arrays.items():
        y = read_tensor(path, header, name)
        assert y.dtype == x.dtype and np.array_equal(x, y) and y.flags.c_contiguous


def test_a_fingerprint_is_sha256_and_sees_one_flipped_bit(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_file(_fill({"a": ("F32", (4,)), "b": ("F16", (3,))}), path)
    whole, tensors = fingerprint(path)
    assert whole == hashlib.sha256(path.read_bytes()).hexdigest()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert fingerprint(path)[0] != whole
    assert [name for name, digest in fingerprint(path)[1].items() if digest != tensors[name]] == ["b"]


def test_a_promised_tensor_that_never_came_is_not_silent(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "m.safetensors", make_header({"a": ("F32", (1,)), "b": ("F32", (1,))}, {}))
    writer.write("a", np.ones(1, np.float32))
    with pytest.raises(AssertionError, match="not written: b"):
        writer.close()


def _header(fields: object, data: int = 8) -> bytes:
    text = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return len(text).to_bytes(8, "little") + text + b"\0" * data


def _tensor(start: int = 0, end: int = 8, shape: object = (2,), dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


DAMAGE = {
    "empty": (b"", "header of 0 bytes"),
    "header longer than the file": ((10**6).to_bytes(8, "little") + b"{}", "1,000,000"),
    "absurd header length": (b"\xff" * 30, "damaged"),
    "not JSON": (_header(b"{nonsense"), "damaged"),
    "not UTF-8": (_header(b'{"\xff\xfe": 1}'), "damaged"),
    "a list": (_header([1]), "damaged"),
    "deep nesting": (_header(b"[" * 10**5), "damaged"),
    "truncated data": (_header({"a": _tensor()}, data=7), "truncated"),
    "trailing data": (_header({"a": _tensor()}, data=9), "longer than its header"),
    "size against shape": (_header({"a": _tensor(shape=(3,))}), "8 bytes for F32"),
    "negative shape": (_header({"a": _tensor(shape=(-2,))}), "shape"),
    "shape of text": (_header({"a": _tensor(shape="2")}), "shape"),
    "gap": (_header({"a": _tensor(0, 4, (1,)), "b": _tensor(6, 10, (1,))}, 10), "b begins at byte 6"),
    "overlap": (_header({"a": _tensor(), "b": _tensor(4, 8, (1,))}), "b begins at byte 4"),
    "reversed offsets": (_header({"a": _tensor(8, 0)}), "damaged"),
    "a name twice": (_header(b'{"a":{},"a":{}}'), "twice"),
    "no dtype": (_header({"a": {"shape": [2], "data_offsets": [0, 8]}}), "dtype"),
    "metadata of numbers": (_header({"__metadata__": {"n": 1}, "a": _tensor()}), "__metadata__ of texts"),
    "metadata of null": (_header({"__metadata__": {"n": None}, "a": _tensor()}), "__metadata__ of texts"),
    "metadata as a list": (_header({"__metadata__": [], "a": _tensor()}), "__metadata__ of texts"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_a_file_error_that_names_the_file(case: str, tmp_path: Path) -> None:
    data, fragment = DAMAGE[case]
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(FileError) as raised:
        read_header(path)
    assert fragment in str(raised.value) and "model.safetensors" in str(raised.value)


def test_no_metadata_may_be_said_as_null(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(_header({"__metadata__": None, "a": _tensor()}))
    assert read_header(path).metadata == {}
    with safe_open(path, "np") as library:
        assert list(library.keys()) == ["a"]


@given(position=st.integers(0, 300), value=st.integers(0, 255))
def test_any_changed_byte_gives_a_file_error_or_a_header(position: int, value: int) -> None:
    data = bytearray(save({"a": np.ones((2, 3), np.float32), "b": np.ones(4, ml_dtypes.bfloat16)}))
    end = 8 + int.from_bytes(data[:8], "little")
    data[8 + position % (end - 8)] = value
    with contextlib.suppress(FileError):
        assert parse_header(bytes(data[8:end]), Path("x")).entries
