"""Step 01: config.json → `ModelConfig`, through the tables of the family."""

from mindport.config.dialects import DIALECTS, dialect_for
from mindport.config.model_config import ModelConfig, Rope
from mindport.config.read import inspect_config, read_config
from mindport.config.report import ConfigReport
from mindport.config.write import from_dict, to_dict

__all__ = [
    "DIALECTS",
    "ConfigReport",
    "ModelConfig",
    "Rope",
    "dialect_for",
    "from_dict",
    "inspect_config",
    "read_config",
    "to_dict",
]
