"""What safetensors 0.8.0 does to a non-contiguous array. For lessons and tests only; float32 only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def save_file(tensors: dict[str, np.ndarray], filename: Path) -> None:
    """Write the format as it should be, but for one thing: memory order where row order is due."""
    header, body = {}, b""
    for name, array in tensors.items():
        data = array.tobytes(order="A")  # the fault: a transposed array's bytes are not transposed
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    Path(filename).write_bytes(len(text).to_bytes(8, "little") + text + body)


def load_file(filename: Path) -> dict[str, np.ndarray]:
    """Read the format; there is nothing wrong with this half."""
    blob = Path(filename).read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header, body = json.loads(blob[8 : 8 + size]), blob[8 + size :]
    return {name: _array(entry, body) for name, entry in header.items()}


def _array(entry: dict[str, Any], body: bytes) -> np.ndarray:
    start, end = entry["data_offsets"]
    return np.frombuffer(body[start:end], np.float32).reshape(entry["shape"])
