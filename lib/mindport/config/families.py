"""What each family needs, read off its tables; all of it: `python -m mindport.config.families > docs/families.md`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from mindport.config.dialect import REQUIRED, Derived, Dialect
from mindport.config.dialects import DIALECTS
from mindport.config.dialects.common import REFUSED
from mindport.config.model_config import ModelConfig
from mindport.tables import Table, markdown

COMMAND = "python -m mindport.config.families > docs/families.md"
FEATURES = (  # the fields of ModelConfig in which families differ, in the order of the forward pass
    ("embedding_scale", "the embedding is multiplied by"),
    ("position", "positions"),
    ("norm", "norm"),
    ("norm_offset", "norms multiply by weight +"),
    ("norm_eps", "epsilon"),
    ("parallel_residual", "attention and MLP side by side"),
    ("num_key_value_heads", "key/value heads"),
    ("head_dim", "width of a head"),
    ("qkv_bias", "biases on q, k, v"),
    ("attention_out_bias", "bias on o"),
    ("qk_norm", "norms on q and k"),
    ("rope", "rotary parameters"),
    ("rotary_dim", "rotated dimensions of a head"),
    ("window", "window of each layer"),
    ("gated_mlp", "gated MLP"),
    ("hidden_act", "activation"),
    ("mlp_bias", "biases in the MLP"),
    ("tie_word_embeddings", "head tied to the embedding"),
)
PROOFS = (  # what is shown for every family, the test that shows it, its limit
    ("logits equal the transformers class, beyond the window and the original context",
     "tests/model/test_gpt.py::test_logits_equal_transformers", "1e-5, absolute"),
    ("loss and the gradient of every parameter equal it",
     "tests/model/test_gpt.py::test_loss_and_all_gradients_equal_transformers", "1e-6 and 1e-5, relative"),
    ("a wrong setting of each feature is seen", "tests/model/test_gpt.py::test_a_wrong_setting_is_seen", "1e-4"),
    ("every module alone, logits and gradients in both modes, greedy tokens: `mindport verify`",
     "tests/parity/test_verify.py::test_a_right_model_is_right", "1e-5, relative"),
    ("a feature got wrong is red, and the module is named",
     "tests/parity/test_families.py::test_a_wrong_feature_is_named", "first wrong module"),
    ("HF → MindSpore → HF, sharded, two precisions",
     "tests/weights/test_transformers.py::test_every_family_comes_back_identical_and_computes_the_same",
     "equal bytes"),
    ("defaults, windows and rotary values are those of the configuration class",
     "tests/config/test_families.py::test_defaults_are_those_of_the_configuration_class", "equal"),
    ("config.json → ModelConfig → config.json → ModelConfig",
     "tests/config/test_families.py::test_out_and_in_again_is_the_same", "equal"),
)  # fmt: skip


def page() -> str:
    """The page, as Markdown."""
    families = list(DIALECTS.values())
    parts = [
        f"# Families\n\nWritten by `{COMMAND}`; a test holds it to the tables in `lib/mindport/config/dialects/`.\n",
        f"What goes across: {_names(families)}. Everything else is refused by name; a new dense decoder is one more "
        "file of tables.\n",
        "## Features\n\n`key` is a key of config.json, followed by what stands in when it is missing; "
        "other text is fixed by the family, – is what the model does by itself.\n",
        markdown(("", *(_code(family.model_type) for family in families)), _features(families)),
        "## Tensors that hold several of ours\n",
        markdown(("family", "tensor", "layout", "parameters of the model"), _fused(families)),
        "## What is refused, and why\n\nIn every family:\n",
        markdown(("key", "allowed", "reason"), [_refusal(refusal) for refusal in REFUSED]),
        "By family, beside unknown keys, unknown activations and unknown kinds of rotary scaling:\n",
        markdown(("family", "key", "allowed", "reason"), _refused(families)),
        "## How it is proved\n\nEach line holds for every family: tiny random models of the real classes "
        "(`tests/families.py`), no norm of which is 1 and no bias of which is 0.\n",
        markdown(("what", "test", "limit"), [(what, _code(test), limit) for what, test, limit in PROOFS]),
    ]
    return "\n".join(parts)


def feature_table(*families: Dialect) -> Table:
    """What each of some families needs: a key of config.json and its default, a value the family fixes, or nothing."""
    chosen = list({family.model_type: family for family in families}.values())
    rows = [tuple(cell.replace("`", "") for cell in row) for row in _features(chosen)]  # Markdown is for the page
    return Table("What a family needs", ("feature", *(family.model_type for family in chosen)), rows)


def _features(families: Sequence[Dialect]) -> list[tuple[str, ...]]:
    return [(words, *(_feature(family, name) for family in families)) for name, words in FEATURES]


def _feature(family: Dialect, name: str) -> str:
    """Where a field of the model comes from in this family."""
    for field in family.fields:
        if name in field.name.split():
            return _code(field.key) + _absent(field.absent)
    if name in family.constants:
        value = family.constants[name]
        return value.how if isinstance(value, Derived) else _value(value)
    default = next(field.default for field in fields(ModelConfig) if field.name == name)
    assert default is not MISSING, (family.model_type, name)
    return "–"


def _absent(absent: Any) -> str:
    if absent is REQUIRED:
        return ", required"
    if isinstance(absent, dict):
        return "; " + ", ".join(f"{key} {value:g}" for key, value in absent.items())
    return "; " + (absent.how if isinstance(absent, Derived) else _value(absent))


def _fused(families: Sequence[Dialect]) -> list[tuple[str, ...]]:
    rows = [(family, row) for family in families for row in family.rows if " " in row.hub]
    return [(_code(f.model_type), _code(f.prefix + row.foreign), row.layout, ", ".join(map(_code, row.hub.split())))
            for f, row in rows]  # fmt: skip


def _refused(families: Sequence[Dialect]) -> list[tuple[str, ...]]:
    own = [(family, refusal) for family in families for refusal in family.refused if refusal not in REFUSED]
    return [(_code(family.model_type), *_refusal(refusal)) for family, refusal in own]


def _refusal(refusal: Any) -> tuple[str, str, str]:
    return (
        ", ".join(map(_code, refusal.key.split())),
        ", ".join(dict.fromkeys(map(_value, refusal.allowed))),
        refusal.reason,
    )


def _value(value: Any) -> str:
    words = {True: "yes", False: "no", None: "none"} if isinstance(value, bool) or value is None else {}
    return words.get(value) or (f"{value:g}" if isinstance(value, float) else str(value))


def _names(families: Sequence[Dialect]) -> str:
    return ", ".join(f"{_code(family.model_type)} ({family.architecture})" for family in families)


def _code(text: str) -> str:
    return f"`{text}`"


if __name__ == "__main__":
    sys.stdout.write(page())
