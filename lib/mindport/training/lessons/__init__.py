"""What notebook 05 shows besides a training itself: each a small experiment that is run where the learner looks on.

lesson_config      a training that fits the size of the run
Laboratory         its data, and the first layers of its model: what the experiments are made with
compare_modes      PyNative beside Graph: the same losses, the time of a step, the compilation
compile_cost       what each new length of a row costs
compare_levels     mixed precision: loss and gradients of each level beside float32
watch_loss_scale   a loss scale that is too large, and finds itself
compare_accumulation  one large batch, pieces by tokens, pieces by mean
rehearse_alarms    trouble planted into the record of a healthy run: what rings
kill_and_resume    a training that is killed and goes on, beside one that is not
poisoned_run       a training in which a weight becomes infinite
row_table          a row as the model sees it: which token counts
"""

from mindport.training.lessons.accumulation import compare_accumulation
from mindport.training.lessons.disturbed import flip_a_bit, kill_and_resume, poisoned_run
from mindport.training.lessons.laboratory import Laboratory, lesson_config
from mindport.training.lessons.lengths import compile_cost
from mindport.training.lessons.levels import compare_levels
from mindport.training.lessons.modes import compare_modes
from mindport.training.lessons.rehearsal import rehearse_alarms
from mindport.training.lessons.rows import row_table
from mindport.training.lessons.scale import watch_loss_scale

__all__ = [
    "Laboratory", "compare_accumulation", "compare_levels", "compare_modes", "compile_cost", "flip_a_bit",
    "kill_and_resume", "lesson_config", "poisoned_run", "rehearse_alarms", "row_table", "watch_loss_scale",
]  # fmt: skip
