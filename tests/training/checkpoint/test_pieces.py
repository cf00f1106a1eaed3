"""Any part of any array comes back, however it is cut, and no more is read than that."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from mindport.errors import FileError, UsageError
from mindport.training.checkpoint import boxes
from mindport.training.checkpoint.pieces import Held, OnDisk, Pieces, open_files
from mindport.weights.safetensors_io import read_header

SHAPES = st.lists(st.integers(0, 6), max_size=4).map(tuple)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[slice, ...]], tuple[slice, ...]]:
    """A shape, boxes that tile it (two parts along each axis), and some part of it."""
    shape = draw(SHAPES)
    tiles: list[tuple[slice, ...]] = [()]
    for length in shape:
        middle = draw(st.integers(0, length))
        sides = [slice(0, middle), slice(middle, length)]
        tiles = [(*box, side) for box in tiles for side in sides]
    ends = [sorted(draw(st.tuples(st.integers(0, length), st.integers(0, length)))) for length in shape]
    return shape, tiles, tuple(slice(*pair) for pair in ends)


@settings(max_examples=60)
@given(cuts(), st.sampled_from([np.float32, np.int8, np.bool_, np.float64]))
def test_any_part_of_any_cut(cut: tuple, dtype: type) -> None:
    shape, tiles, part = cut
    x = (np.arange(np.prod(shape)) % 251).astype(dtype).reshape(shape)
    with tempfile.TemporaryDirectory() as place:
        files = {f"{i}.safetensors": box for i, box in enumerate(tiles)}
        for file, box in files.items():
            save_file({"x": np.ascontiguousarray(x[box]).reshape(x[box].shape)}, Path(place) / file)
        headers = {file: read_header(Path(place) / file) for file in files}
        code = headers["0.safetensors"].entries["x"].dtype
        found = Pieces(Path(place), {"x": Held(code, shape, files)}, headers)
        for meant, got in ((x, found["x"]), (x[part], found.part("x", part)), (x[part], OnDisk(found, "x")[part])):
            assert (got.dtype, got.shape, got.tobytes()) == (meant.dtype, meant.shape, meant.tobytes())
    assert boxes.tiles(tiles, shape)
    some = [box for box in tiles if all(boxes.shape_of(box))]
    if some and shape:
        assert not boxes.tiles([box for box in tiles if box != some[0]], shape)  # a hole
        assert boxes.tiles([*tiles, some[0]], shape)  # the same one twice
        assert len(some) == 1 or not boxes.tiles([*tiles, boxes.whole(shape)], shape)  # elements twice


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize("part", [(slice(256, 512),), (slice(None), slice(256, 512)), (slice(7, 8), slice(0, 3))])
def test_no_more_is_read_than_the_part(tmp_path: Path, part: tuple[slice, ...]) -> None:
    x = np.random.default_rng(0).random((1024, 1024), np.float32)
    save_file({"x": x, "y": x}, tmp_path / "a.safetensors")
    found = open_files(tmp_path, ["a.safetensors"])
    before = bytes_read()
    got = found.part("x", part)
    read = bytes_read() - before
    assert got.tobytes() == x[part].tobytes() and read <= got.nbytes + 4096, (read, got.nbytes)
    before = bytes_read()
    assert found["x"][part].tobytes() == got.tobytes() and bytes_read() - before >= x.nbytes  # the control


def test_what_is_no_part_is_refused(tmp_path: Path) -> None:
    save_file({"x": np.zeros((4, 3), np.float32)}, tmp_path / "a.safetensors")
    found = open_files(tmp_path, ["a.safetensors"])
    for part in ((slice(0, 5),), (slice(-1, 4),), (slice(0, 4, 2),), (slice(3, 1),), (slice(None),) * 3):
        with pytest.raises(UsageError, match="not a part"):
            found.part("x", part)
    with pytest.raises(KeyError):
        found.part("y", ())
    assert np.asarray(OnDisk(found, "x")).shape == OnDisk(found, "x").shape == (4, 3)
    with (tmp_path / "a.safetensors").open("r+b") as file:
        file.truncate(read_header(tmp_path / "a.safetensors").size - 1)
    with pytest.raises(FileError, match="ends before"):
        found["x"]
    (tmp_path / "a.safetensors").unlink()
    with pytest.raises(FileError, match="cannot be read"):
        found["x"]
