"""Multimodal models: which language model stands in `text_config`, and how to take it out.

The steps are transformers' own way. Both levels may say `tie_word_embeddings`; the class of the whole model follows
the outer one, so that the text model must be given that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mindport.config.relatives import inner, nearest
from mindport.errors import ConfigError

STEPS = """
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
whole = AutoModelForImageTextToText.from_pretrained({source!r})
config = whole.config.text_config
config.tie_word_embeddings = whole.config.tie_word_embeddings
text = AutoModelForCausalLM.from_config(config, dtype=whole.dtype)
text.base_model.load_state_dict(whole.model.language_model.state_dict())
text.get_output_embeddings().load_state_dict(whole.get_output_embeddings().state_dict())
text.save_pretrained({target!r})
"""


def check_plain(raw: Mapping[str, Any], file: Path, families: Collection[str], remarks: Sequence[str]) -> None:
    """Stop a model of an unsupported family that wraps a language model.

    Args:
        raw: the config.json.
        file: where it is, for messages.
        families: those that have a table.
        remarks: what else stands against the model, for messages.

    Raises:
        ConfigError: says of which family the language model is, and what would make it a model of its own.
    """
    text, outer = raw.get("text_config"), raw.get("model_type")
    if not isinstance(text, Mapping) or not isinstance(outer, str) or outer in families:
        return
    kind = text.get("model_type")
    raise ConfigError(
        "a multimodal model is not supported as a whole", where=f"{file}: model_type",
        got="; ".join([f"{outer!r} around the text model {kind!r} (text_config: {inner(text)})", *remarks]),
        expected=", ".join(families), do=_way_out(kind, file.parent.resolve(), families),
    )  # fmt: skip


def _way_out(kind: object, directory: Path, families: Collection[str]) -> str:
    if isinstance(kind, str) and kind in families:
        target = directory.with_name(directory.name + "-text")
        steps = STEPS.format(source=str(directory), target=str(target)).replace("\n", "\n    ").rstrip()
        return (
            f"its text model is of the supported family {kind}: save it by itself, copy the tokenizer's files to it, "
            f"and convert {target} (tried with llava, mistral3 and internvl):{steps}"
        )
    near = nearest(kind, families)
    like = f"the nearest supported family is {near}" if near else "no supported family is like it"
    return f"nothing here computes it: its text model {kind!r} is not supported either; {like}"
