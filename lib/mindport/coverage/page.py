"""The page of the table, every row tried: `python -m mindport.coverage.page > docs/coverage.md`."""

from __future__ import annotations

import sys
from collections import Counter

from mindport.coverage.probe import Answers, Outcome, Tried, probe
from mindport.coverage.report import LIMIT
from mindport.coverage.table import FRAME, OPERATORS, Operator, brief
from mindport.tables import markdown

COMMAND = "python -m mindport.coverage.page > docs/coverage.md"


def page(answers: Answers) -> str:
    """The page, as Markdown, from one run of the whole table."""
    states = Counter(answers.operators[o.name].ms.state for o in OPERATORS)
    groups = dict.fromkeys(operator.group for operator in OPERATORS)
    parts = [
        "# Operator coverage\n",
        f"Written by `{COMMAND}`, which tries every row; a test holds it to the table in "
        "`lib/mindport/coverage/operators/` and to what the operators do.\n",
        "`mindport coverage PATH` reads which torch operators a source uses, without running it, and "
        "`mindport coverage package.module:Name` sees which ones a live module calls. Each counterpart is then called "
        "in a process of its own, and its value and gradient are held to torch's: **runs** (both equal), **wrong "
        "value**, **wrong gradient**, **no gradient**, **no kernel** (it exists, and not for this device), **fails**, "
        f"**crashes**, or **absent**. More than {LIMIT:.0%} not supported, of the operators or of their uses, and the "
        "verdict is no. A torch name that is not here counts as not supported and is named.\n",
        f"{len(OPERATORS)} operators under {sum(len(o.names) for o in OPERATORS)} names of torch, on this "
        f"{answers.device}: {', '.join(f'{count} {state}' for state, count in states.most_common())}. "
        "What reads `x + y`, `x[…]` or `ACT2FN[…]` in a source has no name there: only a live module shows it.\n",
        "The expressions are those that are run. `x`, `q`, `z` and their like are the arrays of "
        "`lib/mindport/coverage/inputs.py`; `load` and `same_weights` give a layer its weights, `put` assigns to an "
        "index, `filled` makes an initial value, `stepped` takes three steps, `scheduled` reads the rates, `seeded` "
        "draws twice. A row stands for all its names of torch; forms that differ are each tried.\n",
        *(_group(group, answers) for group in groups),
        "## No operators\n\nNames that compute nothing by themselves; they are listed and not counted.\n",
        markdown(("torch", "MindSpore", "mind"),
                 [(_code(brief(n)), _code(ours) if ours else "–", mind or "–") for n, (ours, mind) in FRAME.items()]),
    ]  # fmt: skip
    return "\n".join(parts)


def _group(group: str, answers: Answers) -> str:
    rows = [_row(o, answers.operators[o.name]) for o in OPERATORS if o.group == group]
    return f"## {group.capitalize()}\n\n" + markdown(("torch", "MindSpore", "here", "mind"), rows)


def _row(operator: Operator, tried: Tried) -> tuple[str, ...]:
    shown = ", ".join(_code(brief(name)) for name in operator.names[:4]) + ", …" * (len(operator.names) > 4)
    here = tried.ms.state + (f"; instead: {tried.instead.state}" if tried.instead else "")
    ours = _code(operator.ms) if operator.ms else "–"
    ours += f"<br>instead {_code(operator.instead)}" * bool(operator.instead)
    return shown, ours, here, _trap(operator, tried.naive) or "–"


def _trap(operator: Operator, naive: Outcome | None) -> str:
    """The trap, and what the translation that looks right does here."""
    seen = f"{_code(operator.naive)}: {naive.state}" if naive else ""
    return "; ".join(filter(None, (operator.trap, seen)))


def _code(text: str) -> str:
    return f"`{text}`"


if __name__ == "__main__":
    sys.stdout.write(page(probe(OPERATORS)))
