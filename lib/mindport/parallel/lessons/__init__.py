"""What notebook 06 shows besides: a process that breaks and the resume, and replicas that read the same rows."""

from mindport.parallel.lessons.crash import Crash, crash_and_resume
from mindport.parallel.lessons.unsharded import unsharded
from mindport.parallel.lessons.workshop import cluster_job, layouts_for, lesson_config, plan_that_runs, traffic_table

__all__ = [
    "Crash",
    "cluster_job",
    "crash_and_resume",
    "layouts_for",
    "lesson_config",
    "plan_that_runs",
    "traffic_table",
    "unsharded",
]
