"""Step 03: the converted model held against the transformers class it came from.

taps                where both are looked at, under both names
reference           the transformers class, in a process of its own → a trace   (with its twin, all that has torch)
reference_training  the same class, trained
trace               arrays and manifest on disk, readable without a framework
ours                the MindSpore model at the same taps
ours_training       the same model, trained by the same recipe
compare             two traces → rows, the first divergence, a verdict
training            two traces of a training → rungs, the first that does not hold, a verdict
verify              all of it
beside              a whole training, done again in torch: `mindport train CONFIG --beside-torch`
  exchange            batches, recipe and answer as files
  reference_run       the process of transformers
  curves              two courses → where they part, and what that says
exported            a checkpoint, run in transformers
"""

from mindport.parity.beside import Recorder, beside_torch, compare_with_torch
from mindport.parity.compare import compare, compare_forward, first_divergence
from mindport.parity.comparison import Comparison, part_table
from mindport.parity.curves import CurveReport
from mindport.parity.exported import ExportReport, check_export
from mindport.parity.launch import run_reference
from mindport.parity.limits import FLOAT32, Limits
from mindport.parity.recipe import usual_steps
from mindport.parity.steps import StepsReport
from mindport.parity.trace import Trace, read_trace, write_trace
from mindport.parity.training import compare_training
from mindport.parity.verify import VerifyReport, converted_for, verify, verify_training

__all__ = [
    "FLOAT32",
    "Comparison",
    "CurveReport",
    "ExportReport",
    "Limits",
    "Recorder",
    "StepsReport",
    "Trace",
    "VerifyReport",
    "beside_torch",
    "check_export",
    "compare",
    "compare_forward",
    "compare_training",
    "compare_with_torch",
    "converted_for",
    "first_divergence",
    "part_table",
    "read_trace",
    "run_reference",
    "usual_steps",
    "verify",
    "verify_training",
    "write_trace",
]
