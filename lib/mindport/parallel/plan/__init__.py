"""The planner: which layout of a training fits and is fastest on cards that are not here. Estimates only."""

from __future__ import annotations

from mindport.parallel.plan.constants import Hardware, hardware, parse_settings
from mindport.parallel.plan.curves import bubble, memory_by_sequence, scaling, speedup_limit, traffic, zero_memory
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.measures import Relief, relief
from mindport.parallel.plan.pipeline import Schedule, schedule
from mindport.parallel.plan.planner import evaluate, plan
from mindport.parallel.plan.result import ESTIMATED, Candidate, Plan
from mindport.parallel.plan.validation import validate
from mindport.parallel.plan.validation_result import Validation
from mindport.parallel.plan.verdict import Verdict, judge

__all__ = ["ESTIMATED", "Candidate", "Hardware", "Job", "Plan", "Relief", "Schedule", "Validation", "Verdict", "bubble",
           "evaluate", "hardware", "judge", "memory_by_sequence", "parse_settings", "plan", "relief", "scaling",
           "schedule", "speedup_limit", "traffic", "validate", "zero_memory"]  # fmt: skip
