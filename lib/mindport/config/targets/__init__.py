"""What weights are written for: our own model, and the networks of MindSpore Transformers (package mindformers)."""

from __future__ import annotations

from mindport.config.dialect import Row
from mindport.config.schema import PARAMS
from mindport.config.targets.mindformers_gpt2 import MINDFORMERS_GPT2
from mindport.config.targets.mindformers_llama import MINDFORMERS_LLAMA, MINDFORMERS_LLAMA_CONCAT
from mindport.config.targets.mindformers_mcore import MINDFORMERS_MCORE
from mindport.config.targets.target import Need, Target, names_only
from mindport.errors import UsageError

MINDSPORE = Target("mindspore", names_only("mindspore", tuple(Row(param.name, param.name) for param in PARAMS)))
TARGETS = {
    target.name: target
    for target in (MINDSPORE, MINDFORMERS_LLAMA, MINDFORMERS_LLAMA_CONCAT, MINDFORMERS_MCORE, MINDFORMERS_GPT2)
}

__all__ = ["MINDSPORE", "TARGETS", "Need", "Target", "target_for"]


def target_for(name: str) -> Target:
    """The target of a name.

    Raises:
        UsageError: there is no such target.
    """
    if name not in TARGETS:
        raise UsageError("no such target", got=repr(name), expected=", ".join(TARGETS))
    return TARGETS[name]
