"""Step 04: faults that are planted, and found; values that are not finite, and who made them."""

from mindport.debug.debugger import session
from mindport.debug.faults import FAULTS, Fault, applicable, plant
from mindport.debug.hidden import Puzzle, plant_hidden
from mindport.debug.lab import LabReport, bundled_lab, examine, fault_lab, fingerprints
from mindport.debug.late import late_errors, late_program
from mindport.debug.lessons import eps_table, mask_table, operator_table
from mindport.debug.loss_scale import LossScaleReport, ScaledStep, explain_loss_scale
from mindport.debug.nonfinite import NonFinite, find_nonfinite
from mindport.debug.smoke import SmokeRun, sample_batch, smoke_run
from mindport.debug.spoil import spoiled
from mindport.debug.symptoms import look_up, signs, symptom_table
from mindport.debug.walk import walk

__all__ = [
    "FAULTS", "Fault", "LabReport", "LossScaleReport", "NonFinite", "Puzzle", "ScaledStep", "SmokeRun", "applicable",
    "bundled_lab", "eps_table", "examine", "explain_loss_scale", "fault_lab", "find_nonfinite", "fingerprints",
    "late_errors", "late_program", "look_up", "mask_table", "operator_table", "plant", "plant_hidden", "sample_batch",
    "session", "signs", "smoke_run", "spoiled", "symptom_table", "walk",
]  # fmt: skip
