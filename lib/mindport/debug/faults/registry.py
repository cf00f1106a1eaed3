"""Every fault by its name, and `plant`, which puts one into a copy of a converted model.

    plant(converted, "swap", to)     a copy whose blocks.1.attn.k and blocks.1.attn.v have changed places
    verify(source, converted=to)     says so, and names the module

They are mistakes of migrations; `mindport.debug.symptoms` names public reports of many.
"""

from __future__ import annotations

from pathlib import Path

from mindport.config.model_config import ModelConfig
from mindport.debug.faults import cells, config, training, weights
from mindport.debug.faults.fault import Fault, Ground
from mindport.errors import UsageError
from mindport.files import check_replaceable
from mindport.weights.manifest import NAME, read_manifest

__all__ = ["FAULTS", "Fault", "Ground", "applicable", "plant"]

FAULTS = {fault.name: fault for part in (weights, config, cells, training) for fault in part.FAULTS}


def applicable(model: ModelConfig, kind: str | None = None) -> list[Fault]:
    """The faults that a model of this configuration can have, of one kind or of all."""
    return [fault for fault in FAULTS.values() if kind in (None, fault.kind) and fault.applies(model)]


def plant(directory: Path | str, fault: str, to: Path | str, *, overwrite: bool = False) -> Path:
    """Copy a MindPort directory with a fault in it.

    Args:
        directory: a converted model.
        fault: a name in `FAULTS`, of a fault of the weights or the configuration.
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
    return _in_a_directory(fault, read_manifest(directory).model).copy(directory, to, overwrite)


def _in_a_directory(name: str, model: ModelConfig) -> Fault:
    planted = [fault.name for fault in applicable(model) if fault.weights or fault.config]
    if name not in FAULTS:
        raise UsageError("there is no such fault", got=name, expected=", ".join(FAULTS))
    if name not in planted:
        raise UsageError("this model cannot have the fault", where=model.model_type, got=name,
                         expected=", ".join(planted))  # fmt: skip
    return FAULTS[name]
