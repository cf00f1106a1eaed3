"""The configuration of a training: a plain file in which every field has a type, a range and a reason.

train_config   the fields
ranges         which numbers a field takes
strict_yaml    YAML without surprises
fields         plain values ↔ fields, by their types
checks         what fields ask of each other, and of the model
file           read, override, write
"""

from mindport.training.config.checks import check_model
from mindport.training.config.file import complete, override, read_config, text_of, write_config
from mindport.training.config.train_config import (
    BatchConfig,
    CheckpointConfig,
    DataConfig,
    MonitorConfig,
    OptimizerConfig,
    PrecisionConfig,
    ScheduleConfig,
    TrainConfig,
)

__all__ = [
    "BatchConfig", "CheckpointConfig", "DataConfig", "MonitorConfig", "OptimizerConfig", "PrecisionConfig",
    "ScheduleConfig", "TrainConfig", "check_model", "complete", "override", "read_config", "text_of", "write_config",
]  # fmt: skip
