"""Step 07: benchmarks, and what notebook 07 measures; each puts ours beside a peer in one run.

`bench` is `mindport bench`. The other functions are the notebook's, one a section: each cuts the user's model to a size
that is timed in seconds, starts processes of its own, and returns a result.
"""

from mindport.tuning.arithmetic import check_claims
from mindport.tuning.batching import compare_batches, scaled_rates
from mindport.tuning.benchmark import Benchmark
from mindport.tuning.faults import plant_faults
from mindport.tuning.ladder import climb
from mindport.tuning.layout import compare_layouts
from mindport.tuning.lengths import compare_shapes
from mindport.tuning.precision import compare_precision
from mindport.tuning.profile import profile_step
from mindport.tuning.recompute import compare_recompute
from mindport.tuning.registry import BENCHMARKS, bench
from mindport.tuning.rules import decision_rules, symptoms
from mindport.tuning.scaling import compare_lengths
from mindport.tuning.workload import cut_model

__all__ = [
    "BENCHMARKS", "Benchmark", "bench", "check_claims", "climb", "compare_batches", "compare_layouts",
    "compare_lengths", "compare_precision", "compare_recompute", "compare_shapes", "cut_model", "decision_rules",
    "plant_faults", "profile_step", "scaled_rates", "symptoms",
]  # fmt: skip
