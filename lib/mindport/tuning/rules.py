"""Decision rules: a symptom, what to switch first, and where the reason was seen.

The order inside a topic is the order to try things in. A rule says whether its reason was measured in this notebook
or comes from elsewhere (an Ascend card's own monitor, say), and then it is marked as not verified here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mindport.errors import UsageError
from mindport.results import Property, Result
from mindport.tables import Table

ELSEWHERE = "not verified here"


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        symptom: what is seen.
        switch: what to change, first things first.
        because: the reason in a sentence.
        seen: the result of the notebook that shows it ("ladder"), or "" when nothing here can.
    """

    symptom: str
    switch: str
    because: str
    seen: str = ""


RULES = (
    Rule("the first step takes long, later ones are quick", "fix the shapes: pad, or bucket the lengths",
         "Graph mode compiles once for every new shape", "lengths"),
    Rule("every step takes long, the processor waits", "one nn.Cell for the whole step, in Graph mode",
         "operator by operator, Python and the launches cost more than small products do", "ladder"),
    Rule("most of the time is attention", "the fused attention kernel; never a T × T array",
         "scores written to memory and read again cost more than computing them", "ladder"),
    Rule("many small element-wise operators fill the timeline", "fused norm, activation, loss and optimizer",
         "each operator reads and writes all it touches; one pass does it once", "profile"),
    Rule("matrix products fill the timeline", "stop switching: more cores, a device, or a smaller model",
         "what remains is arithmetic, and the peak of the machine is its limit", "profile"),
    Rule("longer sequences cost more than twice as much", "compute the FLOPs first; then a window, or fused attention",
         "below some thousand tokens the linear parts dominate, and doubling costs little more than ×2", "scaling"),
    Rule("memory runs out", "in this order: smaller batch, accumulation, recompute, model parallelism, lower precision",
         "the first two change no number that matters, and recompute costs a forward pass", "batching"),
    Rule("memory still runs out in PyNative mode", "recompute the blocks",
         "their activations are computed twice and kept never", "recompute"),
    Rule("float16 is slower than float32", "stay with float32 on a CPU",
         "its operators widen, compute and narrow again; on Ascend it is the native precision", "precision"),
    Rule("the batch was multiplied by k", "multiply the learning rate by k, and warm up",
         "the mean over k times as many tokens is less noisy; a rule of thumb, to be tried", "batching"),
    Rule("somebody advises another layout of [B, S, H]", "measure it, and count the transposes",
         "linear maps and norms take the last axis as it lies; a gain elsewhere may be lost in copies", "layout"),
    Rule("a change is faster", "compare loss and gradients before you believe it",
         "leaving work out is the easiest speed-up", "faults"),
    Rule("an article promises a factor", "multiply its own numbers first",
         "a table that contradicts itself needs no benchmark", "arithmetic"),
    Rule("graph-kernel fusion (enable_graph_kernel) fails to compile", "switch it off again and go on",
         "on a CPU it stops with \"Response is empty\"; no gain was ever measured"),
    Rule("the processor waits for data", "more parallel workers, a deeper prefetch, more and smaller files",
         "a step that ends before the next batch is ready waits for it; compare a run on one batch held in memory"),
    Rule("npu-smi: HBM above 50 % busy while matrix products take over half of the time",
         "larger tiles and fused operators before more cards", "the card waits for its memory, not for its cube units"),
    Rule("npu-smi: HCCS below 200 GB/s while gradients are exchanged", "fuse small all-reduces, overlap them",
         "many small messages do not fill the link"),
    Rule("npu-smi: the clock falls or the temperature is high", "cool it, then measure again",
         "step times that vary with the clock compare nothing"),
)  # fmt: skip


@dataclass(frozen=True)
class Advice(Result):
    """The rule for one symptom."""

    rule: Rule
    state: str

    @property
    def ok(self) -> bool:
        return True

    def headline(self) -> str:
        return f"{self.rule.switch} ({self.state})"

    def tables(self) -> tuple[Table, ...]:
        return (Table(self.rule.symptom, ("switch", "because", "state"),
                      [(self.rule.switch, self.rule.because, self.state)]),)  # fmt: skip


@dataclass(frozen=True)
class DecisionRules(Result):
    """All rules, each with what this run says about it: `states` has one entry a rule."""

    states: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return len(self.states) == len(RULES)

    def headline(self) -> str:
        seen = sum(state != ELSEWHERE for state in self.states)
        return f"{len(RULES)} rules, {seen} of them seen in this run, {len(RULES) - seen} not verified here"

    def tables(self) -> tuple[Table, ...]:
        rows = [(r.symptom, r.switch, r.because, state) for r, state in zip(RULES, self.states, strict=True)]
        return (Table("symptom → what to switch", ("symptom", "switch", "because", "seen in"), rows),)

    def properties(self) -> tuple[Property, ...]:
        how = "rules on an Ascend card's monitor, on data loading, on graph-kernel fusion: nothing here shows them"
        return (Property("decision rules beyond this machine", "not verified", how),)

    def advice(self, symptom: str) -> Advice:
        """The rule for a symptom, for a widget.

        Raises:
            UsageError: there is no such symptom.
        """
        for rule, state in zip(RULES, self.states, strict=True):
            if rule.symptom == symptom:
                return Advice(rule, state)
        raise UsageError(
            "there is no rule for this symptom",
            got=symptom,
            expected="a symptom of the table, or one that the widget lists",
        )


def symptoms() -> tuple[str, ...]:
    """What can be looked up."""
    return tuple(rule.symptom for rule in RULES)


def decision_rules(results: Mapping[str, Result]) -> DecisionRules:
    """The rules beside what was measured.

    Args:
        results: the results of the notebook by name ("ladder", "shapes", …); a rule whose result is missing, or is
            negative, says so.
    """
    return DecisionRules(tuple(_state(rule, results) for rule in RULES))


def _state(rule: Rule, results: Mapping[str, Result]) -> str:
    if not rule.seen:
        return ELSEWHERE
    if rule.seen not in results:
        return f"{rule.seen}: not run"
    return rule.seen if results[rule.seen].ok else f"{rule.seen}: not confirmed"
