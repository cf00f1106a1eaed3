"""Traces of any module, the user's own included, and what two of them say about each other.

recorder         what hooks saw: names, order, copies; knows neither framework
torch_side       record(module, inputs, out) for a torch module               (the only module with torch)
mindspore_side   the same for an nn.Cell, in PyNative mode                    (the only module with mindspore)
launch, script   `mindport trace`: the user's function in a process of its own
summary          what a trace holds
names            two names for one thing: rules, pairs, proposals
distance         how far two arrays are apart
limits           how far they may be
compare          two traces → rows, the first divergence, a verdict           (`mindport compare A B`)

The format is that of `mindport.parity.trace`; docs/traces.md says it in words.
"""

from mindport.tracing.compare import compare_traces
from mindport.tracing.comparison import TraceComparison
from mindport.tracing.launch import is_function, trace
from mindport.tracing.names import Rule, read_rules
from mindport.tracing.summary import TraceSummary, summarise

__all__ = [
    "Rule",
    "TraceComparison",
    "TraceSummary",
    "compare_traces",
    "is_function",
    "read_rules",
    "summarise",
    "trace",
]
