"""Troubles of a training, each by a pure function of what happened so far, with its likely causes.

watch = Watch(Plan(start="scratch", vocab=50257, steps=300))
for alarm in watch.step(record, shapes): …
"""

from mindport.training.monitor.alarms.history import History, Plan, entropy
from mindport.training.monitor.alarms.watch import RULES, Watch

__all__ = ["RULES", "History", "Plan", "Watch", "entropy"]
