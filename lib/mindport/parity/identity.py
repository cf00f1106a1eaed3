"""Which model: a trace and a converted directory belong together when they come from the same files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindport.config.model_config import ModelConfig
from mindport.errors import FileError, UsageError
from mindport.files import sha256
from mindport.parity.trace import MADE_BY
from mindport.weights.companions import exported_from
from mindport.weights.manifest import Manifest, read_manifest
from mindport.weights.readers import open_hf


def cut(config: ModelConfig, layers: int | None) -> ModelConfig:
    """The configuration with its first `layers` layers.

    Raises:
        UsageError: it has fewer, or `layers` is not positive.
    """
    if layers is None:
        return config
    if not 1 <= layers <= config.num_hidden_layers:
        raise UsageError(
            "so many layers cannot be kept", where="layers", got=layers, expected=f"1 to {config.num_hidden_layers}"
        )
    return config.with_layers(layers)


def identity(directory: Path) -> dict[str, Any]:
    """Path, the digests of config.json and of the weight files, and of the directory that they were exported from."""
    weights = open_hf(directory).shards.files  # those that a conversion reads, whatever else lies there
    return {
        "path": str(Path(directory).resolve()),
        "config": sha256(Path(directory) / "config.json"),
        "weights": {file.name: sha256(file) for file in weights},
        "exported": exported_from(Path(directory)),
    }


def same_model(trace: Mapping[str, Any], directory: Path) -> None:
    """Hold a trace's source against the manifest of a converted directory.

    Args:
        trace: the trace's `source`, as `identity` wrote it.
        directory: the converted directory, with its manifest and its copy of config.json.

    Raises:
        FileError: they come from different weights or configurations.
    """
    manifest = read_manifest(directory)
    if trace.get("exported") != manifest.digests:
        _same_weights(trace, manifest, directory)
    if sha256(Path(directory) / "config.json") != trace["config"]:
        raise FileError(
            "the trace was made with another config.json",
            where=Path(directory) / "config.json",
            expected=f"sha256 {trace['config']}",
            do="make the trace again, or convert again",
        )


def check_untrained(manifest: Manifest, directory: Path) -> None:
    """Only before it was trained is a model what its source makes.

    Raises:
        FileError: it was, and this is how to get a reference for it.
    """
    if manifest.steps:
        raise FileError(
            "the model was trained since it was converted, so that its source is no reference for it",
            where=directory,
            got=f"{manifest.steps:,} steps of training",
            do=f"make one of it: mindport convert {directory} DST --to huggingface; "
            f"mindport verify DST --converted {directory}",
        )


def _same_weights(trace: Mapping[str, Any], manifest: Manifest, directory: Path) -> None:
    check_untrained(manifest, directory)
    source = manifest.source
    converted = {name: entry["sha256"] for name, entry in source.files.items()} if source else {}
    if trace["weights"].items() - converted.items():
        raise FileError(
            "the trace is of other weights than the converted model",
            where=directory,
            got=f"converted from {source.path}" if source else "a model that was not converted",
            expected=trace["path"],
            do=f"make a trace of the model that was converted: {MADE_BY}",
        )
