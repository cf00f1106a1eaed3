"""Step 04: what is wrong with a model, and the lab in which that is tried: faults that are planted, and found."""

from mindport.debug.diagnosis import Cause, Diagnosis, Evidence, diagnose
from mindport.debug.explained import Explained, verify
from mindport.debug.faultlab import LabReport, fault_lab
from mindport.debug.faults import FAULTS, Fault, applicable, plant
from mindport.debug.lessons import bundled_lab, eps_table, examine, fingerprints, mask_table, operator_table

__all__ = [
    "FAULTS", "Cause", "Diagnosis", "Evidence", "Explained", "Fault", "LabReport", "applicable", "bundled_lab",
    "diagnose", "eps_table", "examine", "fault_lab", "fingerprints", "mask_table", "operator_table", "plant", "verify",
]  # fmt: skip
