"""Step 07: benchmarks. `mindport bench` runs them; each puts ours beside a peer in one run."""

from mindport.tuning.benchmark import Benchmark
from mindport.tuning.registry import BENCHMARKS, bench

__all__ = ["BENCHMARKS", "Benchmark", "bench"]
