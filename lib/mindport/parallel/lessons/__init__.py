"""What notebook 06 shows besides: a process that breaks and the resume, and replicas that read the same rows."""

from mindport.parallel.lessons.crash import Crash, crash_and_resume
from mindport.parallel.lessons.unsharded import unsharded
from mindport.parallel.lessons.workshop import lesson_config

__all__ = ["Crash", "crash_and_resume", "lesson_config", "unsharded"]
