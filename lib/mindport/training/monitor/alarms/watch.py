"""All rules together, each of which rings once an episode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mindport.training.monitor.alarms import course, held_out, machine, scale, start
from mindport.training.monitor.alarms.history import Finding, History, Plan
from mindport.training.monitor.events import Alarm, Evaluation, Pace
from mindport.training.monitor.meter import Shape
from mindport.training.step_record import StepRecord

QUIET = 50  # steps without the trouble, after which it is another episode


@dataclass(frozen=True)
class Rule:
    """A trouble.

    Attributes:
        name: of its alarms.
        looks: (history, plan) → what it found; pure.
        quiet: looks without a finding, after which the next one is another episode.
    """

    name: str
    looks: Callable[[History, Plan], Finding | None]
    quiet: int = QUIET


# In the order of their certainty: of two that ring at one step, the first explains the other.
EACH_STEP = (
    Rule("not finite", course.not_finite),
    Rule("labels leak", start.leak),
    Rule("nothing loaded", start.blank),
    Rule("initial weights", start.wild),
    Rule("loss scale at its minimum", scale.scale_at_minimum),
    Rule("overflow in most steps", scale.overflows),
    Rule("loss scale falls", scale.scale_falls),
    Rule("no gradient", course.no_gradient),
    Rule("learning rate 0", course.no_rate),
    Rule("diverged", course.diverged),
    Rule("gradient spike", course.norm_spike),
    Rule("loss spike", course.loss_spike),
    Rule("plateau", course.plateau),
    Rule("recompiled", machine.recompiled),
    Rule("many shapes", machine.many_shapes),
    Rule("slow", machine.slow),
)
EACH_PACE = (Rule("memory grows", machine.leaking, quiet=machine.PACES),)
EACH_EVALUATION = (Rule("overfit", held_out.overfit, quiet=1),)
RULES = (*EACH_STEP, *EACH_PACE, *EACH_EVALUATION)


class Watch:
    """Takes what happens and answers with the alarms that it rings.

    Args:
        plan: of the run.
        rules: names of those to look at; all when it is None.
    """

    def __init__(self, plan: Plan, rules: Iterable[str] | None = None) -> None:
        self.plan, self.history = plan, History()
        self._names = {rule.name for rule in RULES} if rules is None else set(rules)
        self._quiet = {rule.name: rule.quiet for rule in RULES}

    def step(self, record: StepRecord, shapes: Iterable[Shape] = ()) -> list[Alarm]:
        """After a step, with the shapes of its forward passes."""
        self.history.add(record, shapes)
        return list(self._look(EACH_STEP, record.step))

    def pace(self, pace: Pace) -> list[Alarm]:
        """After a measurement of speed and memory."""
        self.history.paces.append(pace)
        return list(self._look(EACH_PACE, pace.step))

    def evaluation(self, evaluation: Evaluation) -> list[Alarm]:
        """After a measurement on held-out text."""
        self.history.evaluate(evaluation)
        return list(self._look(EACH_EVALUATION, evaluation.step))

    def _look(self, rules: Iterable[Rule], step: int) -> Iterator[Alarm]:
        for rule in rules:
            finding = rule.looks(self.history, self.plan) if rule.name in self._names else None
            quiet = self._quiet[rule.name]
            self._quiet[rule.name] = quiet + 1 if finding is None else 0
            if finding is not None and quiet >= rule.quiet:
                yield Alarm(step, rule.name, finding.says, finding.causes, finding.do, finding.fatal)
