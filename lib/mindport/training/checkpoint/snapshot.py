"""A training at one step, as its trainer hands it over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class About:
    """What a resume needs to know besides numbers; JSON values, as `mindport.results.plain` makes them.

    Attributes:
        config: the `TrainConfig`.
        data: SHA-256 of the data's manifest.json.
        tokenizer: SHA-256 of tokenizer.json; empty where there is none.
        position: in the data, of the next batch.
        device: what computed.
    """

    config: dict[str, Any]
    data: str
    tokenizer: str
    position: dict[str, Any]
    device: str = "CPU"


@dataclass(frozen=True)
class Snapshot:
    """A training after `step` steps.

    Attributes:
        step: how often the weights were to move.
        weights: hub name → float32; every parameter of the model.
        state: everything else with numbers in it: the optimizer's means, the loss scale, the counters of dropout.
        about: what else a resume needs.

    Both mappings may read the device at each look-up: each array is asked for once, in the thread that saves.
    """

    step: int
    weights: Arrays
    state: Arrays
    about: About
