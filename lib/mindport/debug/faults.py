"""Faults of a converter, planted: the directory is sound, its digests are right, and the model is wrong.

    plant(converted, "swap", to)     a copy whose blocks.1.attn.k and blocks.1.attn.v have changed places
    verify(source, converted=to)     says so, and names the module

Each is a mistake that has shipped somewhere (design notes, B3 and B5) and that no check of names, shapes or
digests can see.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.config.model_config import ModelConfig
from mindport.errors import UsageError
from mindport.files import atomic_directory, check_replaceable, sha256
from mindport.weights import load
from mindport.weights.manifest import NAME, read_manifest, write_manifest

Arrays = dict[str, np.ndarray]
WRONG_BASE, WRONG_EPS = 4.0, 10.0  # what rope_theta and norm_eps are multiplied with


@dataclass(frozen=True)
class Fault:
    """One mistake.

    Attributes:
        name: what `plant` calls it.
        what: what the converter did.
        seen: how such a mistake shows without a comparison.
        first: the first wrong value, in `mindport.parity` terms.
        applies: whether a model can have it.
        weights: changes the arrays in place.
        config: returns the wrong configuration.
    """

    name: str
    what: str
    seen: str
    first: Callable[[ModelConfig], str]
    applies: Callable[[ModelConfig], bool] = lambda config: True
    weights: Callable[[Arrays, ModelConfig], None] | None = None
    config: Callable[[ModelConfig], ModelConfig] | None = None


def plant(directory: Path | str, fault: str, to: Path | str, *, overwrite: bool = False) -> Path:
    """Copy a MindPort directory with a fault in it.

    Args:
        directory: a converted model.
        fault: a name in `FAULTS`.
        to: the copy; its manifest has the digests of the wrong weights, so that it loads.
        overwrite: replace `to`, an earlier copy.

    Raises:
        UsageError: there is no such fault, this model cannot have it, or `to` is the model itself.
        FileError: `to` is there already, and `overwrite` is false or it is no MindPort directory.
    """
    directory, to = Path(directory), Path(to)
    if to.resolve() == directory.resolve():
        raise UsageError("a fault is planted in a copy", got=to, do="name another directory")
    if overwrite:
        check_replaceable(to, NAME)
    weights = load(directory)
    chosen = _fault(fault, weights.config)
    arrays = {name: np.array(array) for name, array in weights.items()}
    if chosen.weights:
        chosen.weights(arrays, weights.config)
    with atomic_directory(to, overwrite=overwrite) as aside:
        _copy(directory, aside, arrays, chosen)
    return to


def applicable(config: ModelConfig) -> list[Fault]:
    """The faults that a model of this configuration can have."""
    return [fault for fault in FAULTS.values() if fault.applies(config)]


def _fault(name: str, config: ModelConfig) -> Fault:
    if name not in FAULTS:
        raise UsageError("there is no such fault", got=name, expected=", ".join(FAULTS))
    if not FAULTS[name].applies(config):
        raise UsageError("this model cannot have the fault", where=config.model_type, got=name,
                         expected=", ".join(fault.name for fault in applicable(config)))  # fmt: skip
    return FAULTS[name]


def _copy(directory: Path, aside: Path, arrays: Arrays, fault: Fault) -> None:
    """Everything but the weights as it is; the weights in one file; a manifest that believes both."""
    from safetensors.numpy import save_file

    manifest = read_manifest(directory)
    for file in directory.iterdir():
        if file.is_file() and file.name not in manifest.files and not file.name.endswith(".index.json"):
            shutil.copyfile(file, aside / file.name)
    target = aside / "model.safetensors"
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, target)
    files = {target.name: {"sha256": sha256(target), "bytes": target.stat().st_size}}
    model = fault.config(manifest.model) if fault.config else manifest.model
    write_manifest(aside, dataclasses.replace(manifest, model=model, files=files))


def _at(config: ModelConfig, name: str) -> str:
    """A name in the layer that has the fault: the second, so that the first is seen to pass."""
    return f"blocks.{min(1, config.num_hidden_layers - 1)}.{name}"


def _swap(*pairs: tuple[str, str]) -> Callable[[Arrays, ModelConfig], None]:
    """Tensors of equal shape change places; pairs that the model lacks (no bias) are passed over."""

    def change(arrays: Arrays, config: ModelConfig) -> None:
        for one, other in ((_at(config, one), _at(config, other)) for one, other in pairs):
            if one in arrays:
                arrays[one], arrays[other] = arrays[other], arrays[one]

    return change


def _transpose(arrays: Arrays, config: ModelConfig) -> None:
    arrays[_at(config, "attn.o.weight")] = arrays[_at(config, "attn.o.weight")].T


def _drop_bias(arrays: Arrays, config: ModelConfig) -> None:
    arrays[_at(config, "attn.q.bias")] = np.zeros_like(arrays[_at(config, "attn.q.bias")])


def _theta(config: ModelConfig) -> ModelConfig:
    assert config.rope is not None  # `applies` has seen to it
    rope = dataclasses.replace(config.rope, rope_theta=config.rope.rope_theta * WRONG_BASE)
    return dataclasses.replace(config, rope=rope)


def _gelu(config: ModelConfig) -> ModelConfig:
    return dataclasses.replace(config, hidden_act="gelu" if config.hidden_act == "gelu_tanh" else "gelu_tanh")


def _eps(config: ModelConfig) -> ModelConfig:
    return dataclasses.replace(config, norm_eps=config.norm_eps * WRONG_EPS)


def _square(config: ModelConfig) -> bool:
    return config.num_attention_heads * config.head_dim == config.hidden_size


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("swap", "k and v of a layer have changed places", "shapes agree; text is nonsense",
              lambda c: _at(c, "attn.k"),
              weights=_swap(("attn.k.weight", "attn.v.weight"), ("attn.k.bias", "attn.v.bias"))),
        Fault("swap_mlp", "gate and up of a layer have changed places", "shapes agree; text is a little worse",
              lambda c: _at(c, "mlp.gate"), lambda c: c.gated_mlp,
              _swap(("mlp.gate.weight", "mlp.up.weight"), ("mlp.gate.bias", "mlp.up.bias"))),
        Fault("transpose", "the square output projection of a layer is transposed", "shapes agree",
              lambda c: _at(c, "attn.o"), _square, _transpose),
        Fault("norm_swap", "the two norms of a layer have changed places", "shapes agree; text is a little worse",
              lambda c: _at(c, "norm1"), weights=_swap(("norm1.weight", "norm2.weight"), ("norm1.bias", "norm2.bias"))),
        Fault("drop_bias", "the bias of q is lost", "text is a little worse",
              lambda c: _at(c, "attn.q"), lambda c: c.qkv_bias, _drop_bias),
        Fault("theta", f"rope_theta is {WRONG_BASE:g} times too large", "short texts are right",
              lambda c: "blocks.0.attn.context", lambda c: c.rope is not None, config=_theta),
        Fault("gelu", "the other form of GELU", "off by 2e-4 where it is made: a limit of 1e-3 lets it pass",
              lambda c: "blocks.0.mlp.hidden", lambda c: c.hidden_act in ("gelu", "gelu_tanh"), config=_gelu),
        Fault("eps", f"the norms' epsilon is {WRONG_EPS:g} times too large", "shows where activations are small",
              lambda c: "blocks.0.norm1", config=_eps),
    )
}  # fmt: skip
