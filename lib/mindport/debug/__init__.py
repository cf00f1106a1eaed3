"""Step 04: faults that are planted, and found."""

from mindport.debug.faults import FAULTS, Fault, applicable, plant
from mindport.debug.lab import LabReport, bundled_lab, examine, fault_lab, fingerprints
from mindport.debug.lessons import eps_table, mask_table, operator_table

__all__ = [
    "FAULTS", "Fault", "LabReport", "applicable", "bundled_lab", "eps_table", "examine", "fault_lab", "fingerprints",
    "mask_table", "operator_table", "plant",
]  # fmt: skip
