"""The families, one file of tables each."""

from __future__ import annotations

from collections.abc import Sequence

from mindport.config.dialect import Dialect
from mindport.config.dialects.gemma import GEMMA
from mindport.config.dialects.gpt2 import GPT2
from mindport.config.dialects.gpt_neox import GPT_NEOX
from mindport.config.dialects.llama import LLAMA
from mindport.config.dialects.mistral import MISTRAL
from mindport.config.dialects.phi3 import PHI3
from mindport.config.dialects.qwen2 import QWEN2
from mindport.config.dialects.qwen3 import QWEN3
from mindport.config.relatives import nearest
from mindport.errors import ConfigError

DIALECTS = {dialect.model_type: dialect for dialect in (GPT2, GPT_NEOX, LLAMA, MISTRAL, QWEN2, QWEN3, PHI3, GEMMA)}


def dialect_for(model_type: object, where: object = "config.json: model_type", remarks: Sequence[str] = ()) -> Dialect:
    """The dialect of a Hugging Face `model_type`, which stands `where`.

    Args:
        model_type: the family's name.
        where: for messages.
        remarks: what else stands against the model, for messages.

    Raises:
        ConfigError: no table for this family.
    """
    if not isinstance(model_type, str) or model_type not in DIALECTS:
        near = nearest(model_type, DIALECTS)
        raise ConfigError(
            "this family is not supported",
            where=where,
            got="; ".join([repr(model_type), *remarks]),
            expected=", ".join(DIALECTS),
            do=f"the nearest supported one is {near}; convert a model of that family, or add a table"
            if near
            else "convert a model of a supported family, or add a table in mindport/config/dialects",
        )
    return DIALECTS[model_type]
