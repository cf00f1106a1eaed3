"""The training of notebook 05, and the first layers of its model for the experiments beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mindport import sources
from mindport.config import ModelConfig
from mindport.model import GPT, Precision, load_model
from mindport.model.dropout import with_dropout
from mindport.model.parameters import fresh
from mindport.training.config import (
    BatchConfig,
    CheckpointConfig,
    DataConfig,
    MonitorConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
    override,
)
from mindport.training.data import Batch, Prepared
from mindport.training.data.chat import has_template
from mindport.training.parts import say_aloud
from mindport.training.run_directory import RunDirectory
from mindport.training.start import described_model, start_model
from mindport.training.stepper import Stepper
from mindport.training.text import open_text

STEPS = {"smoke": 40, "small": 12, "full": 10}
LAYERS, ROWS = 2, 2  # of the experiments
PROMPT = "Who's there?"


def lesson_config(directory: Path | str, size: str, out: Path | str, steps: int = 0) -> TrainConfig:
    """A training that fits the time: from random weights at size smoke, else a fine-tuning of the model.

    Without dropout, so that it can be held beside PyTorch. A model with a chat template learns the answers of short
    conversations, any other goes on with the bundled text.

    Args:
        directory: a Hugging Face directory.
        size: smoke, small or full.
        out: of the run of the notebooks; the training gets a folder in it.
        steps: how many; 0: as the size has it.
    """
    directory, steps = Path(directory), steps or STEPS[size]
    config = TrainConfig(
        model=str(directory), out=str(Path(out) / "training"), steps=steps, dropout=0.0,
        checkpoints=CheckpointConfig(every=max(1, steps // 2), keep=1, best=False),
        monitor=MonitorConfig(every=max(1, steps // 4), evaluate_every=max(1, steps // 4), evaluate_rows=16,
                              sample_every=steps, prompts=(PROMPT,), sample_tokens=24),
    )  # fmt: skip
    return _from_scratch(config) if size == "smoke" else _fine_tuning(config, directory)


def _from_scratch(config: TrainConfig) -> TrainConfig:
    _, model = described_model(config)
    return replace(
        config, start="scratch", data=_corpus(model, 64), batch=BatchConfig(rows=8),
        optimizer=OptimizerConfig(lr=3e-3), schedule=ScheduleConfig(warmup=max(1, config.steps // 10)),
    )  # fmt: skip


def _fine_tuning(config: TrainConfig, directory: Path) -> TrainConfig:
    _, model = described_model(config)
    chats = DataConfig(train=(str(sources.text_file("questions")),), held_out_share=0.15, column="messages",
                       layout="padded", tokens=min(128, model.max_position_embeddings))  # fmt: skip
    return replace(
        config, data=chats if has_template(directory) else _corpus(model, 128), batch=BatchConfig(rows=4),
        optimizer=OptimizerConfig(lr=2e-5, betas=(0.9, 0.999), weight_decay=0.0),
        schedule=ScheduleConfig(shape="linear", warmup=min(2, config.steps - 1)),
    )  # fmt: skip


def _corpus(model: ModelConfig, tokens: int) -> DataConfig:
    return DataConfig(train=(str(sources.corpus()),), tokens=min(tokens, model.max_position_embeddings))


class Laboratory:
    """The data of a training, and the first layers of its model: what holds for two layers is seen at once.

    Args:
        config: of the training.

    Raises:
        MindPortError: the model or the text is at fault.
    """

    def __init__(self, config: TrainConfig) -> None:
        self.config = replace(config, batch=replace(config.batch, rows=ROWS, accumulate=1))
        self.text: Prepared = open_text(config)
        self.start = start_model(config, RunDirectory(config.out).model, say_aloud)

    @property
    def layers(self) -> int:
        """How many the experiments use."""
        return min(LAYERS, self.start.config.num_hidden_layers)

    def batches(self, count: int, rows: int = ROWS) -> list[Batch]:
        """The first batches of the training text."""
        endless = self.text.batches("train", rows, seed=self.config.seed)
        return [next(endless) for _ in range(count)]

    def stepper(self, *changes: str) -> Stepper:
        """A training of the first layers, from its first step on.

        Args:
            changes: to the configuration, as `--set` takes them: "mode=pynative".
        """
        config = override(self.config, changes)
        return Stepper(self.model(config), config)

    def model(self, config: TrainConfig) -> GPT:
        """The first layers, with the weights that the training begins with."""
        precision = Precision(config.precision.level, config.precision.dtype)
        if config.start == "pretrained":
            return load_model(self.start.directory, layers=self.layers, precision=precision, dropout=config.dropout)
        shape = with_dropout(self.start.config.with_layers(self.layers), config.dropout)
        return GPT(shape, fresh(shape, config.seed), precision=precision)
