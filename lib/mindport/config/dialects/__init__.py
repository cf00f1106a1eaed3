"""The families, one file of tables each."""

from __future__ import annotations

from mindport.config.dialect import Dialect
from mindport.config.dialects.gemma import GEMMA
from mindport.config.dialects.gpt2 import GPT2
from mindport.config.dialects.gpt_neox import GPT_NEOX
from mindport.config.dialects.llama import LLAMA
from mindport.config.dialects.mistral import MISTRAL
from mindport.config.dialects.phi3 import PHI3
from mindport.config.dialects.qwen2 import QWEN2
from mindport.config.dialects.qwen3 import QWEN3
from mindport.errors import ConfigError

DIALECTS = {dialect.model_type: dialect for dialect in (GPT2, GPT_NEOX, LLAMA, MISTRAL, QWEN2, QWEN3, PHI3, GEMMA)}


def dialect_for(model_type: object) -> Dialect:
    """The dialect of a Hugging Face `model_type`.

    Raises:
        ConfigError: no table for this family.
    """
    if not isinstance(model_type, str) or model_type not in DIALECTS:
        raise ConfigError(
            "this family is not supported",
            where="config.json: model_type",
            got=repr(model_type),
            expected=", ".join(DIALECTS),
            do="convert a model of a supported family, or add a table in mindport/config/dialects",
        )
    return DIALECTS[model_type]
