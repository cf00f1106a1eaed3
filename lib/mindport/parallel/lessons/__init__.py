"""What notebook 06 shows besides: a training over processes in which one of them breaks, and its resume."""

from mindport.parallel.lessons.crash import Crash, crash_and_resume
from mindport.parallel.lessons.workshop import lesson_config

__all__ = ["Crash", "crash_and_resume", "lesson_config"]
