"""Faults that are planted to be found: in the weights, in the configuration, in the code, in the training."""

from mindport.debug.faults.registry import FAULTS, Fault, Ground, applicable, plant

__all__ = ["FAULTS", "Fault", "Ground", "applicable", "plant"]
