"""A config.json as MindSpore Transformers reads it: it comes with transformers 4 and knows that library's spellings."""

from __future__ import annotations

from typing import Any


def mindformers_config(raw: dict[str, Any]) -> dict[str, Any]:
    """The same configuration with `torch_dtype` for `dtype`, and the rotary keys of transformers 4.

    `dtype` stops its loader: the name is taken there. `rope_parameters` it does not know: the base of the wavelengths
    would silently be its own default.
    """
    config = {key: value for key, value in raw.items() if key not in ("dtype", "rope_parameters")}
    if raw.get("dtype") is not None:
        config.setdefault("torch_dtype", raw["dtype"])
    if isinstance(raw.get("rope_parameters"), dict):
        rope = dict(raw["rope_parameters"])
        config["rope_theta"] = rope.pop("rope_theta", raw.get("rope_theta"))
        config["rope_scaling"] = None if rope.get("rope_type", "default") == "default" else rope
    return config
