"""A training watched: events, where they go, what is measured, what rings.

    plan = Plan(start="scratch", vocab=config.vocab_size, steps=300, warmup=10)
    sinks = [JsonLines(out / "metrics.jsonl", step), TensorBoard(out / "tensorboard", step), terminal(300, step=step)]
    with Monitor(sinks, Meter(config, machine_peak()), Watch(plan), every=10) as monitor:
        monitor.evaluation(evaluate(stepper.loss, batches, step=0))
        alarms = monitor.step(record, [batch.ids.shape])
        monitor.samples(sampler(record.step))

Nothing here imports MindSpore before it computes.
"""

from mindport.training.monitor.alarms import RULES, History, Plan, Watch, entropy
from mindport.training.monitor.evaluate import evaluate, evaluating
from mindport.training.monitor.events import Alarm, Evaluation, Event, Pace, Sample
from mindport.training.monitor.json_lines import JsonLines, event_of, read_metrics
from mindport.training.monitor.meter import Meter, machine_peak
from mindport.training.monitor.monitor import Monitor
from mindport.training.monitor.samples import Sampler
from mindport.training.monitor.sink import Sink
from mindport.training.monitor.tensorboard import TensorBoard
from mindport.training.monitor.terminal import Bar, Lines, terminal

__all__ = [
    "RULES", "Alarm", "Bar", "Evaluation", "Event", "History", "JsonLines", "Lines", "Meter", "Monitor", "Pace",
    "Plan", "Sample", "Sampler", "Sink", "TensorBoard", "Watch", "entropy", "evaluate", "evaluating",
    "event_of", "machine_peak", "read_metrics", "terminal",
]  # fmt: skip
