"""A converted directory → the model, with every parameter accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import mindspore as ms
import numpy as np

from mindport.config import ModelConfig
from mindport.config.schema import shapes
from mindport.errors import MappingError, UsageError, some
from mindport.model.dropout import with_dropout
from mindport.model.execution import MODES
from mindport.model.gpt import GPT
from mindport.model.parameters import Source
from mindport.model.precision import Precision, check_device
from mindport.ranks import ALONE, Ranks
from mindport.weights import load
from mindport.weights.manifest import read_manifest


def load_model(
    directory: str | Path,
    dtype: str = "float32",
    layers: int | None = None,
    mode: Literal["pynative", "graph"] | None = None,
    precision: Precision | None = None,
    dropout: float | None = None,
    seed: int = 0,
    ranks: Ranks = ALONE,
) -> GPT:
    """The model of a MindPort directory, ready to compute.

    Float16 and bfloat16 files are widened to float32 exactly. Arrays are read one by one, so the peak is the model
    and its largest parameter once more.

    Args:
        directory: a directory with mindport.json.
        dtype: of the model: float32 (what is verified here), float16, or bfloat16 (no product of it on a CPU).
        layers: keep only the first so many layers.
        mode: sets MindSpore's execution mode for the whole process; None leaves it as it is.
        precision: what a training computes in, on float32 weights; None: all in `dtype`.
        dropout: one probability in place of the configuration's own.
        seed: of the dropout's random numbers.
        ranks: which part of the model this process holds, and of each batch.

    Raises:
        ConfigError: the model cannot be shared by so many ranks.
        FileError: the directory is not a MindPort directory, or a file of it is damaged.
        MappingError: names or shapes of the weights are not those of the configuration.
        UsageError: `layers`, `dtype` or `mode` makes no sense.
        BackendError: this device does not compute in `dtype`.
    """
    if mode is not None:
        _set_mode(mode)
    check_device(dtype)
    config = with_dropout(first_layers(read_manifest(Path(directory)).model, layers), dropout)
    return GPT(config, source_of(load(directory, names=list(shapes(config))), config), dtype, precision, seed, ranks)


def first_layers(config: ModelConfig, layers: int | None) -> ModelConfig:
    """The same model cut after `layers` layers; None keeps all.

    Raises:
        UsageError: it has fewer.
    """
    if layers is None:
        return config
    if not 1 <= layers <= config.num_hidden_layers:
        raise UsageError(
            "the model has no such number of layers", got=layers, expected=f"1 … {config.num_hidden_layers}"
        )
    return config.with_layers(layers)


def source_of(weights: Mapping[str, np.ndarray], config: ModelConfig) -> Source:
    """The weights as a source of parameters, each read when its parameter is made.

    Raises:
        MappingError: a parameter has no weight, or a weight no parameter.
    """
    wanted = shapes(config)
    if missing := [name for name in wanted if name not in weights]:
        raise MappingError("parameters without a weight", got=some(missing), expected="one weight each",
                           do="convert the model again from its own directory")  # fmt: skip
    if extra := [name for name in weights if name not in wanted]:
        raise MappingError("weights that the model has no parameter for", got=some(extra),
                           do="convert the model again from its own directory")  # fmt: skip
    return lambda name, shape: weights[name]


def _set_mode(mode: str) -> None:
    if mode not in MODES:
        raise UsageError("no such execution mode", got=mode, expected=", ".join(MODES))
    ms.set_context(mode=MODES[mode])
