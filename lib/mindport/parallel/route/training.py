"""The YAML of a planned layout, for MindSpore Transformers, and the script that trains by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindport.config import ModelConfig
from mindport.config.schema import shapes
from mindport.config.targets import MINDSPORE, TARGETS, Target, target_for
from mindport.errors import ConfigError, FileError
from mindport.mindformers import Recipe
from mindport.mindformers.data import UNKNOWN
from mindport.mindformers.export import as_text, content
from mindport.mindformers.networks import TRAINED, check_network
from mindport.parallel.plan import ESTIMATED, Candidate, Job
from mindport.weights import open_converted

WEIGHTS = "PATH/OF/YOUR/CONVERTED/WEIGHTS"

SCRIPT = '''"""Trains with MindSpore Transformers by a YAML: train_mindformers.py train.yaml. Not run here."""

import sys

from mindformers import MindFormerConfig, Trainer, build_context

config = MindFormerConfig(sys.argv[1])
build_context(config)
Trainer(config).finetune()
'''


def train_yaml(job: Job, best: Candidate, weights: Path | None) -> str:
    """The YAML of the plan's layout, in the graph schema.

    Args:
        job: what was laid out.
        best: the layout.
        weights: a directory that `convert` wrote for MindSpore Transformers; None leaves a path to fill in.

    Raises:
        ConfigError: no network of MindSpore Transformers trains the model.
        UsageError: no YAML says the layout.
        FileError: not such a directory.
    """
    target, directory = (target_of(job.model), Path(WEIGHTS)) if weights is None else _converted(job.model, weights)
    recipe = Recipe(seq_length=job.seq, batch_size=best.batch)
    sections = content(directory, job.model, target, best.layout, recipe)
    _set(sections, job)
    return as_text(sections, remarks=(f"For the layout {best.layout}: {ESTIMATED}; not run here.", *_left(weights)))


def _set(sections: dict[str, Any], job: Job) -> None:
    """What the plan counts on besides the layout: precision, and the memory of a card."""
    sections["model"]["model_config"]["compute_dtype"] = job.dtype
    sections["context"]["max_device_memory"] = f"{job.hardware['memory']:.0f}GB"


def _left(weights: Path | None) -> list[str]:
    places = [UNKNOWN, *([WEIGHTS] if weights is None else [])]
    return [f"To fill in: {place}" for place in places]


def target_of(model: ModelConfig) -> Target:
    """What `convert` has to make for the YAML: the newer network where there is one that trains."""
    name = "mindformers-mcore" if model.model_type in TRAINED else "mindformers-llama"
    if model.position != "rope":  # GPT-2 and its like
        name = "mindformers-gpt2"
    check_network(model, target := TARGETS[name])
    target.check(model)
    return target


def _converted(model: ModelConfig, weights: Path) -> tuple[Target, Path]:
    manifest = open_converted(weights).manifest
    target = target_for(manifest.target)
    if target == MINDSPORE:
        raise FileError("these weights carry our own names, not MindSpore Transformers'", where=weights,
                        do=f"mindport convert DIR OUT --to {target_of(model).name}, then --weights OUT")  # fmt: skip
    if shapes(manifest.model) != shapes(model):
        raise ConfigError("the weights are another model's than the plan's", where=weights,
                          got=manifest.model.model_type, expected=f"the shapes of this {model.model_type}",
                          do="plan the directory that they were converted from")  # fmt: skip
    check_network(model, target)
    return target, weights.resolve()
