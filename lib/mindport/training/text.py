"""The text of a training: prepared where that was not done, and opened."""

from __future__ import annotations

from pathlib import Path

from mindport.training.config import TrainConfig, check_model
from mindport.training.data import DataReport, Prepared, open_data, prepare
from mindport.training.run_directory import RunDirectory
from mindport.training.start import described_model, tokenizer_of


def prepare_text(config: TrainConfig) -> DataReport:
    """Make the tokens of a training, or find them made.

    Raises:
        MindPortError: the text, the model's tokenizer or the directory is at fault.
    """
    directory, model = described_model(config)
    check_model(config, model, config.model)
    return prepare(config.data, directory, text_directory(config), vocab_size=model.vocab_size, seed=config.seed)


def open_text(config: TrainConfig, *, ready: bool = False) -> Prepared:
    """The rows of a training; prepared, if they were not.

    Args:
        config: of the training.
        ready: another process has just prepared them, or found them whole.

    Raises:
        MindPortError: as `prepare_text`.
    """
    if not ready:
        prepare_text(config)
    directory, model = described_model(config)  # every file was held to its digest just now
    return open_data(text_directory(config), tokenizer=tokenizer_of(directory), vocab_size=model.vocab_size,
                     check=False)  # fmt: skip


def text_directory(config: TrainConfig) -> Path:
    """Where the rows are: as configured, else in the run's directory."""
    return Path(config.data.directory) if config.data.directory else RunDirectory(config.out).data
