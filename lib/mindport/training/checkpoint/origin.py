"""What every checkpoint of a run has in common: the manifest, and the small files beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mindport.config import ModelConfig, read_config
from mindport.config.targets import MINDSPORE
from mindport.errors import FileError
from mindport.weights.companions import companions, set_dtype
from mindport.weights.manifest import NAME, Manifest, read_manifest

DTYPE = "float32"


@dataclass(frozen=True)
class Origin:
    """Where the model came from; read once, since the directory may go while the training runs.

    Attributes:
        manifest: of the MindPort directory; a new one for a Hugging Face directory (a start from scratch).
        files: the companions' bytes by name.
    """

    manifest: Manifest
    files: Mapping[str, bytes]

    @property
    def model(self) -> ModelConfig:
        return self.manifest.model

    def copy_files(self, directory: Path) -> None:
        """Write the companions; config.json says float32, as the weights are."""
        for name, content in self.files.items():
            (directory / name).write_bytes(content)
        set_dtype(directory, DTYPE)


def read_origin(source: Path | str) -> Origin:
    """Read a MindPort directory, or a Hugging Face directory of which only the configuration is needed.

    Raises:
        FileError: it is neither, or has another target's names.
        ConfigError: config.json makes no model.
    """
    source = Path(source)
    if not (source / "config.json").is_file():
        raise FileError("the model's directory has no config.json", where=source,
                        do="name a directory that `mindport convert` wrote, or a Hugging Face directory")  # fmt: skip
    files = {path.name: path.read_bytes() for path in companions(source)}
    if not (source / NAME).exists():
        model = read_config(source).model
        assert model is not None
        return Origin(Manifest(model, DTYPE, None, {}, {}), files)
    manifest = read_manifest(source)
    if manifest.target != MINDSPORE.name:
        raise FileError(f"weights under the names of {manifest.target}, which our model does not have", where=source,
                        do="convert it with --to mindspore first")  # fmt: skip
    return Origin(manifest, files)
