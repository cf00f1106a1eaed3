"""The tensors of a directory, by name: shapes from the headers first, values one at a time afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mindport.config.locate import find_config
from mindport.errors import BackendError, FileError, first_line, some
from mindport.weights.dtypes import NUMPY
from mindport.weights.layouts import Shape
from mindport.weights.paths import Shards, check_index, find_shards
from mindport.weights.safetensors_io import Header, read_header, read_tensor

WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".ckpt"}


@dataclass(frozen=True, slots=True)
class Info:
    """What is known of a tensor before it is read: file, precision (safetensors' code), shape, size, position."""

    file: str
    dtype: str
    shape: Shape
    nbytes: int
    offset: int


class Reader(Protocol):
    """Tensors of one directory.

    Attributes:
        directory: where.
        format: "safetensors" or "pytorch".
        shards: its files.
        infos: name → what is known of it, in the files' order.
        headers: file name → header, empty for another format than safetensors.
    """

    directory: Path
    format: str
    shards: Shards
    infos: dict[str, Info]
    headers: dict[str, Header]

    def read(self, name: str) -> np.ndarray:
        """The values of one tensor."""


class SafetensorsReader:
    """`model.safetensors`, or shards with an index."""

    format = "safetensors"

    def __init__(self, directory: Path, shards: Shards) -> None:
        self.directory, self.shards = directory, shards
        self.paths = {path.name: path for path in shards.files}
        self.headers = {name: read_header(path) for name, path in self.paths.items()}
        self.infos = _collect(shards, {name: _header_infos(name, header) for name, header in self.headers.items()})

    def read(self, name: str) -> np.ndarray:
        file = self.infos[name].file
        return read_tensor(self.paths[file], self.headers[file], name)


class TorchReader:
    """`pytorch_model.bin`, or shards with an index: plain tensors only, nothing in the file is executed.

    The files are mapped, so that a tensor's bytes are read when its values are asked for.
    """

    format = "pytorch"

    def __init__(self, directory: Path, shards: Shards) -> None:
        self.directory, self.shards = directory, shards
        self.headers: dict[str, Header] = {}
        self.paths = {path.name: path for path in shards.files}
        self._open: tuple[str, dict[str, Any]] = ("", {})  # one file at a time
        self.infos = _collect(shards, {name: self._infos(name) for name in self.paths})

    def read(self, name: str) -> np.ndarray:
        import torch

        tensor = self._state(self.infos[name].file)[name].detach().resolve_conj().resolve_neg().contiguous()
        if tensor.dtype == torch.bfloat16:  # NumPy's own types have no bfloat16: carried as bits
            return tensor.view(torch.int16).numpy().view(NUMPY["BF16"])
        return tensor.numpy()

    def _infos(self, file: str) -> dict[str, Info]:
        state = self._state(file)
        return {
            name: Info(file, _torch_code(x), tuple(x.shape), x.numel() * x.element_size(), position)
            for position, (name, x) in enumerate(state.items())
        }

    def _state(self, file: str) -> dict[str, Any]:
        if self._open[0] != file:
            self._open = (file, _torch_load(self.paths[file]))
        return self._open[1]


def open_hf(directory: Path | str) -> Reader:
    """The tensors of a Hugging Face directory; safetensors are preferred where a `.bin` lies beside them.

    Raises:
        FileError: no weights there (an unfinished download, another folder, another format), or damaged ones.
        BackendError: a `.bin` and no torch to read it.
    """
    directory = find_config(Path(directory)).parent
    if (directory / "mindport.json").exists():
        raise FileError("this is a MindPort directory, converted already", where=directory,
                        do="load it, or convert it with --to huggingface")  # fmt: skip
    if shards := find_shards(directory, "model", ".safetensors"):
        return SafetensorsReader(directory, shards)
    if shards := find_shards(directory, "pytorch_model", ".bin"):
        return TorchReader(directory, shards)
    raise _no_weights(directory)


def unread(reader: Reader) -> list[str]:
    """Weight files of the directory that this reader does not read."""
    read = {path.name for path in reader.shards.files}
    return sorted(path.name for path in reader.directory.iterdir() if path.suffix in WEIGHTS and path.name not in read)


def _no_weights(directory: Path) -> FileError:
    names = sorted(path.name for path in directory.iterdir())
    what, do = "no weights here", "finish the download: model.safetensors (or its shards and index) is missing"
    if any(Path(name).suffix in WEIGHTS for name in names):
        what, do = "weights of another format", "save the model as safetensors with transformers' save_pretrained"
    if any(name.startswith("adapter_") for name in names):
        what, do = "an adapter, not a model", "merge it into its base model with peft's merge_and_unload, and save that"
    return FileError(what, where=directory, got=some(names, 6),
                     expected="model.safetensors or pytorch_model.bin, or shards with their index", do=do)  # fmt: skip


def _header_infos(file: str, header: Header) -> dict[str, Info]:
    entries = sorted(header.entries.items(), key=lambda item: item[1].start)
    return {name: Info(file, e.dtype, e.shape, e.nbytes, e.start) for name, e in entries}


def _collect(shards: Shards, infos: Mapping[str, Mapping[str, Info]]) -> dict[str, Info]:
    """All tensors of all files; none may stand in two of them."""
    found: dict[str, Info] = {}
    for file, tensors in infos.items():
        if twice := sorted(found.keys() & tensors.keys()):
            raise FileError("a tensor stands in two shards", where=file, got=some(twice), do="remove the stale shard")
        found.update(tensors)
    check_index(shards, {name: info.file for name, info in found.items()})
    return found


def _torch_load(path: Path) -> dict[str, Any]:
    try:
        import torch
    except ImportError as error:
        raise BackendError("a .bin file can be read with torch only", where=path, got=error,
                           do="install torch, or take the model's safetensors") from None  # fmt: skip
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=_is_zip(path))
    except Exception as error:  # torch raises whatever its parser met
        raise FileError("not a file of plain tensors, or damaged; nothing in it was executed", where=path,
                        got=_torch_says(error), do="save the state_dict again as safetensors") from None  # fmt: skip
    others = [k for k, x in state.items() if not _is_plain(k, x)] if isinstance(state, dict) else [type(state).__name__]
    if others:
        raise FileError("not a state_dict: it holds more than dense tensors with names", where=path, got=some(others),
                        expected="names and tensors only: no sparse, nested or empty (meta) ones",
                        do="save model.state_dict() alone")  # fmt: skip
    return state


def _is_plain(name: object, x: Any) -> bool:
    import torch

    if not isinstance(name, str) or not isinstance(x, torch.Tensor):
        return False
    return x.layout is torch.strided and not x.is_meta and not x.is_nested


def _torch_says(error: BaseException) -> str:
    """torch's own words, but for its advice to load the file all the same and let it run what it likes."""
    if "weights_only" not in str(error):
        return first_line(error) or repr(error)
    named = re.search(r"GLOBAL ([\w.]+)", str(error))
    return f"it asks for {named[1]} to be called" if named else "it holds more than tensors, or is no file of torch"


def _is_zip(path: Path) -> bool:  # torch maps its newer files only, which are zip archives
    with open(path, "rb") as file:
        return file.read(2) == b"PK"


def _torch_code(x: Any) -> str:
    name = str(x.dtype).removeprefix("torch.")
    return {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}.get(name, name)
