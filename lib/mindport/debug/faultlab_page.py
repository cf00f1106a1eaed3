"""The page of the fault lab: `python -m mindport.debug.faultlab_page > docs/fault-lab.md` runs all of it."""

from __future__ import annotations

import sys

from mindport.debug.faultlab import COARSE, FIRST, TOP, LabReport, Trial, fault_lab
from mindport.tables import markdown

COMMAND = "python -m mindport.debug.faultlab_page > docs/fault-lab.md"
COLUMNS = ("planted", "what was done wrong", "model", "first wrong value", "named", "rank")


def page(report: LabReport) -> str:
    """The page, as Markdown."""
    clean = [(clean.model, ", ".join(clean.alarms) or "nothing") for clean in report.clean]
    return "\n".join([
        f"# The fault lab\n\nWritten by `{COMMAND}`, which plants every fault and diagnoses it; tests hold the page to "
        "the faults and to what is named.\n",
        "They are mistakes of migrations; public reports of many are named in `mindport.debug.symptoms`. Names, shapes "
        "and digests are right; the comparison with transformers, module by module, sees the first wrong value, and "
        "the diagnosis looks for the mistake that makes *exactly* this value of the reference's own numbers. It does "
        "not know what was planted.\n",
        "For each of these it has a hypothesis or a sign: the rates say that they are told apart and that none is "
        "blamed for another, not that every mistake there is would be named. What no hypothesis makes is located, and "
        "left to signs, which score less than ½.\n",
        "The last part of the table is of a training: some steps beside torch's, from the same weights and "
        "batches. Where one run explains nothing, ours is run a second time.\n",
        "A fault counts as named when the first cause says what was done wrong. Some cannot be told apart by what they "
        "leave: where every gradient is below the limit, clipping each by its own norm is no clipping, and "
        "`clip_missing` is right for both. `mindport faultlab --only NAME` plants some of them again, and shows how "
        "each is known; a fault of a training takes minutes.\n",
        rates(report) + "\n",
        "The last two columns are what coarser checks would have said: the cosine of the logits, and the share of "
        "positions at which the most likely next token is still the right one.\n",
        markdown((*COLUMNS, *COARSE), [(*row(trial), *trial.coarse) for trial in report.trials]),
        "## Without a fault\n",
        markdown(("model", "found"), clean),
    ])  # fmt: skip


def rates(report: LabReport) -> str:
    """How many were named, and what is asked for."""
    count, alarms = len(report.trials), sum(bool(clean.alarms) for clean in report.clean)
    return (
        f"{len({trial.planted for trial in report.trials})} faults, {count} trials: {report.first} named first "
        f"({report.first / count:.0%}, at least {FIRST:.0%}), {report.top} among the first {TOP} "
        f"({report.top / count:.0%}, all); {alarms} false alarms in {len(report.clean)} models without a fault."
    )


def row(trial: Trial) -> tuple[str, ...]:
    """The part of a line that is the same on every machine."""
    first = trial.named[0] if trial.named else "nothing"
    return f"`{trial.planted}`", trial.what, trial.model, f"`{trial.found}`", f"`{first}`", str(trial.rank or "–")


if __name__ == "__main__":
    sys.stdout.write(page(fault_lab(progress=True)))
