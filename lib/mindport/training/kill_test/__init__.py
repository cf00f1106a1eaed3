"""Kill a training again and again, resume it each time, and hold the result to one that was never interrupted.

    python -m mindport.training.kill_test CONFIG [--times 20] [--seed 0] [--out DIR] [--set KEY=VALUE] [--json]

Each training is a process of its own, and is killed with SIGKILL, which no process can catch. The moments are drawn by
the seed: as the text is tokenised; between the start and the first step, where the model is read and compiled; in a
step; while a checkpoint is written. What is compared is every number of every step, and every array at the end.

Where `parallel` asks for several processes, a kill is of one rank, of the launcher, or of all ranks at once, as the
seed says, and nothing of a training may outlive it.

moments      when it is killed
layouts      what one layout wrote, gone on with under another: --resume-under tp2:dp2
process      a training with the processes that it starts
victims      which processes there are
kills        the processes, and the report
comparison   two runs held together
"""

from mindport.training.kill_test.comparison import Comparison, compare_runs
from mindport.training.kill_test.kills import Kill, KillReport, kill_test
from mindport.training.kill_test.layouts import LayoutReport, Resumed, resume_under

__all__ = [
    "Comparison", "Kill", "KillReport", "LayoutReport", "Resumed", "compare_runs", "kill_test", "resume_under",
]  # fmt: skip
