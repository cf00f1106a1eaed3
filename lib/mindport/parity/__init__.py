"""Step 03: the converted model held against the transformers class it came from.

taps        where both are looked at, under both names
reference   the transformers class, in a process of its own → a trace   (the only module with torch)
trace       arrays and manifest on disk, readable without a framework
ours        the MindSpore model at the same taps
compare     two traces → rows, the first divergence, a verdict
verify      all of it
"""

from mindport.parity.compare import compare, compare_forward, first_divergence
from mindport.parity.comparison import Comparison, part_table
from mindport.parity.launch import run_reference
from mindport.parity.limits import FLOAT32, Limits
from mindport.parity.trace import Trace, read_trace, write_trace
from mindport.parity.verify import VerifyReport, converted_for, verify

__all__ = [
    "FLOAT32",
    "Comparison",
    "Limits",
    "Trace",
    "VerifyReport",
    "compare",
    "compare_forward",
    "converted_for",
    "first_divergence",
    "part_table",
    "read_trace",
    "run_reference",
    "verify",
    "write_trace",
]
