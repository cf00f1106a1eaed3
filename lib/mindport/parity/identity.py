"""Which model: a trace and a converted directory belong together when they come from the same files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindport.config.model_config import ModelConfig
from mindport.errors import FileError, UsageError
from mindport.files import sha256
from mindport.parity.trace import MADE_BY
from mindport.weights.manifest import read_manifest

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


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
    """Path, and the digests of config.json and of the weight files."""
    weights = sorted(file for pattern in WEIGHTS for file in Path(directory).glob(pattern))
    return {
        "path": str(Path(directory).resolve()),
        "config": sha256(Path(directory) / "config.json"),
        "weights": {file.name: sha256(file) for file in weights},
    }


def same_model(trace: Mapping[str, Any], directory: Path) -> None:
    """Hold a trace's source against the manifest of a converted directory.

    Args:
        trace: the trace's `source`, as `identity` wrote it.
        directory: the converted directory, with its manifest and its copy of config.json.

    Raises:
        FileError: they come from different weights or configurations.
    """
    source = read_manifest(directory).source
    converted = {name: entry["sha256"] for name, entry in source.files.items()} if source else {}
    if trace["weights"].items() - converted.items():
        raise FileError(
            "the trace is of other weights than the converted model",
            where=directory,
            got=f"converted from {source.path}" if source else "a model that was not converted",
            expected=trace["path"],
            do=f"make a trace of the model that was converted: {MADE_BY}",
        )
    if sha256(Path(directory) / "config.json") != trace["config"]:
        raise FileError(
            "the trace was made with another config.json",
            where=Path(directory) / "config.json",
            expected=f"sha256 {trace['config']}",
            do="make the trace again, or convert again",
        )
