"""The model that a training starts from, as a directory that the loader and the checkpoints understand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mindport import sources, weights
from mindport.config import ModelConfig, read_config
from mindport.errors import FileError, MindPortError
from mindport.files import sha256
from mindport.training.config import TrainConfig
from mindport.weights.manifest import NAME, Manifest, read_manifest

Say = Callable[[str], None]


@dataclass(frozen=True)
class StartModel:
    """What is trained.

    Attributes:
        directory: a MindPort directory; for a start from scratch the Hugging Face directory may do, without weights.
        config: of the model, as its directory has it.
        tokenizer: its tokenizer.json.
    """

    directory: Path
    config: ModelConfig
    tokenizer: Path


def start_model(config: TrainConfig, converted: Path, say: Say) -> StartModel:
    """Find the model of a training, and convert it where that is needed.

    Args:
        config: of the training.
        converted: where a conversion is kept; one of the same files is used again.
        say: is told what takes time.

    Raises:
        FileError: there is no such model, or it has no tokenizer.json, or its files are damaged.
        ConfigError, MappingError: it cannot be converted.
    """
    directory, model = described_model(config)
    if config.start == "pretrained" and not (directory / NAME).is_file():
        directory = _converted(directory, converted, say)
    return StartModel(directory, model, tokenizer_of(directory))


def described_model(config: TrainConfig) -> tuple[Path, ModelConfig]:
    """The directory that the configuration names, and the model that it describes; no weight is read.

    Raises:
        FileError: there is none.
        ConfigError: its config.json makes no model.
    """
    directory = sources.resolve(config.model)
    if (directory / NAME).is_file():
        return directory, read_manifest(directory).model
    model = read_config(directory).model
    assert model is not None  # of a config.json that was not refused
    return directory, model


def tokenizer_of(directory: Path) -> Path:
    """The tokenizer.json of a model's directory.

    Raises:
        FileError: there is none.
    """
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise FileError("the model has no tokenizer.json, without which its text has no tokens", where=directory,
                        do="save its fast tokenizer there: AutoTokenizer.from_pretrained(…).save_pretrained(DIR)",
                        )  # fmt: skip
    return path


def _converted(source: Path, target: Path, say: Say) -> Path:
    """The conversion of a source; one that is there already, or a new one.

    Raises:
        FileError: weights are there that were trained: not what the configuration names, nor to be written over.
    """
    there = _manifest(target)
    if there and there.steps:
        raise FileError("trained weights are in the way of the converted model", where=target,
                        got=f"a checkpoint after {there.steps} steps", expected=f"{source}, converted",
                        do="name it to train on from it (model: …), or move it elsewhere")  # fmt: skip
    if there is None or not _is_of(there, target, source):
        say(f"converting {source}")
        weights.convert(source, target, overwrite=target.exists(), progress=False)
    return target


def _manifest(converted: Path) -> Manifest | None:
    try:
        return read_manifest(converted)
    except MindPortError:  # none is there, or a damaged one: the conversion says what is wrong
        return None


def _is_of(manifest: Manifest, converted: Path, source: Path) -> bool:
    """Whether a conversion was made of exactly these files, in their own precision."""
    if manifest.source is None or manifest.dtype != "keep":
        return False
    try:
        if sha256(converted / "config.json") != sha256(source / "config.json"):
            return False
        files = weights.open_hf(source).shards.files
        digests = {file.name: sha256(file) for file in files}
    except MindPortError:  # a file is damaged: the conversion itself says which
        return False
    return digests == {name: known["sha256"] for name, known in manifest.source.files.items()}
