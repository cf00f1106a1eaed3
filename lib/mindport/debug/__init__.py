"""Step 04: what is wrong with a model, and the lab in which that is tried.

explained                     `mindport verify`, with the most likely causes
diagnosis/                    two traces → causes, by reproducing what is wrong
faults/, faultlab             mistakes that are planted, and named: `mindport faultlab`, and its page
nonfinite                     the first value that is not finite, and who made it:
  hunt, watch, slopes           the search; hooks on the way forward; gradients on the way back
  lines, expressions            which statement of a module, which part of it
  summary, reasons              what is in a tensor; why it is not finite
  cases, spoil, leftovers       what to practise on
walk, debugger                line by line on paper, and a session of Python's debugger
modes, mode_cases, late       PyNative beside Graph; errors that come late
smoke, loss_scale, scaled_run the first steps of a training; what a loss scaler did
symptoms                      sign → cause → evidence → next action
hidden, lessons               puzzles and small tables for the notebooks
"""

from mindport.debug.debugger import session
from mindport.debug.diagnosis import Cause, Diagnosis, Evidence, diagnose
from mindport.debug.explained import Explained, verify
from mindport.debug.faultlab import LabReport, fault_lab
from mindport.debug.faults import FAULTS, Fault, applicable, plant
from mindport.debug.hidden import Puzzle, plant_hidden
from mindport.debug.late import late_errors, late_program
from mindport.debug.leftovers import leftovers
from mindport.debug.lessons import bundled_lab, eps_table, examine, fingerprints, mask_table, operator_table
from mindport.debug.loss_scale import LossScaleReport, ScaledStep, explain_loss_scale
from mindport.debug.nonfinite import NonFinite, find_nonfinite
from mindport.debug.smoke import SmokeRun, sample_batch, smoke_run
from mindport.debug.spoil import spoiled
from mindport.debug.symptoms import look_up, signs, symptom_table
from mindport.debug.walk import walk

__all__ = [
    "FAULTS", "Cause", "Diagnosis", "Evidence", "Explained", "Fault", "LabReport", "LossScaleReport", "NonFinite",
    "Puzzle", "ScaledStep", "SmokeRun", "applicable", "bundled_lab", "diagnose", "eps_table", "examine",
    "explain_loss_scale", "fault_lab", "find_nonfinite", "fingerprints", "late_errors", "late_program", "leftovers",
    "look_up", "mask_table", "operator_table", "plant", "plant_hidden", "sample_batch", "session", "signs", "smoke_run",
    "spoiled", "symptom_table", "verify", "walk",
]  # fmt: skip
