"""A whole configuration to begin with, for a model: every field, its reason, and values that suit the model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mindport import sources
from mindport.config import ModelConfig
from mindport.results import Result
from mindport.training.config import BatchConfig, DataConfig, OptimizerConfig, ScheduleConfig, TrainConfig, text_of
from mindport.training.start import described_model

TOKENS, STEPS, WARMUP = 256, 100, 5
HEAD = """\
# A training, for `mindport train`. Every field is here with its reason; what is left out has this value or, above the
# sections, must be named. Relative paths begin at this file. `--set optimizer.lr=1e-4` changes one for a single run.

"""


@dataclass(frozen=True)
class Example(Result):
    """The text of a configuration.

    Attributes:
        yaml: the file's content.
    """

    yaml: str

    @property
    def ok(self) -> bool:
        return bool(self.yaml)

    def headline(self) -> str:
        return self.yaml.rstrip("\n")


def example(model: str) -> Example:
    """A configuration that fine-tunes a model on the bundled text.

    Args:
        model: a name that `mindport fetch` knows, or a directory.

    Raises:
        FileError, ConfigError: there is no such model.
    """
    shown = model if sources.is_name(model) else str(sources.resolve(model).absolute())
    named = TrainConfig(model=shown, out=f"runs/{sources.resolve(model).name}")
    return Example(HEAD + text_of(suited(named, described_model(named)[1])))


def suited(config: TrainConfig, model: ModelConfig) -> TrainConfig:
    """The configuration with the bundled text, and rows that the model takes."""
    return replace(
        config, steps=STEPS,
        data=DataConfig(train=("corpus",), tokens=min(TOKENS, model.max_position_embeddings)),
        batch=BatchConfig(rows=4), optimizer=OptimizerConfig(lr=2e-5), schedule=ScheduleConfig(warmup=WARMUP),
    )  # fmt: skip
