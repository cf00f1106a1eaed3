"""Operator coverage: which torch operators a source or a module uses, and what MindSpore makes of each one here.

operators/*.yaml   the table: torch's names, MindSpore's counterpart, its trap, its replacement
frame.yaml         names of torch that compute nothing (types, devices, modules)
scan, live         what is used: read from source without running it, or seen while a live module runs
probe              each counterpart is called, and its value and gradient held to torch's
"""

from mindport.coverage.cover import cover
from mindport.coverage.table import OPERATORS, operator_table

__all__ = ["OPERATORS", "cover", "operator_table"]
