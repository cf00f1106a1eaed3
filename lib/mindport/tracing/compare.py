"""`mindport compare A B`: two traces, value by value in order of execution; neither framework is needed.

A is the reference. The first value that is wrong tells where to look: an output whose input is right accuses the
module, an input that is wrong although everything made before it is right accuses the code between the modules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mindport.errors import FileError, MappingError, UsageError, some
from mindport.parity.trace import MADE_BY, Trace, read_trace
from mindport.tracing.accuse import first_backward, first_forward
from mindport.tracing.comparison import ParameterRow, TraceComparison
from mindport.tracing.limits import Limit
from mindport.tracing.names import Pair, Pairing, Rule, pair, propose, split
from mindport.tracing.padding import find_padding
from mindport.tracing.rows import measure
from mindport.weights.names import natural

SAME = 1e-5  # relative: figures of the same numbers, added up in another order
ROUNDED = 2e-2  # relative: figures of numbers that were rounded to fewer bits
FIGURES = ("mean", "std", "smallest", "largest")
SETTINGS = ("seed", "dropout")


def compare_traces(
    a: Path | str | Trace, b: Path | str | Trace, rules: Sequence[Rule] = (), *, limit: float | None = None,
    padding: str | None = None,
) -> TraceComparison:  # fmt: skip
    """Hold trace `b` against trace `a`.

    Args:
        a, b: traces, or the directories that hold them.
        rules: from A's names to B's; `read_rules` reads them.
        limit: the relative error that is allowed, in the place of the table by precision.
        padding: the array of A that is 0 where there is padding, or `name=N` for one that is N there; by default an
            argument of the name attention_mask.

    Raises:
        FileError: a trace is missing, damaged, or of another version.
        MappingError: no value of A has a partner in B, or two have the same.
        UsageError: the limit is no limit, or there is no such array.
    """
    if limit is not None and not 0 <= limit < math.inf:  # an infinite one would let NaN pass
        raise UsageError("a limit is a finite number, 0 or more", where="limit", got=limit)
    left, right = _read(a), _read(b)
    frameworks = {str(trace.about.get("framework")) for trace in (left, right)}
    values, parameters = (
        pair(names(left), names(right), rules, aliases=len(frameworks) > 1) for names in (_execution, _parameters)
    )
    proposals = _proposals(left, right, values)
    if not any(one.kind == "out" for one in values.pairs):
        raise _strangers(values, proposals)
    real, place = find_padding(left, padding), {name: n for n, name in enumerate(_execution(left))}
    pairs = sorted(values.pairs, key=lambda one: place[one.names[0]])
    if _loss(left) != _loss(right):
        pairs = [one for one in pairs if one.kind not in ("back", "grad") and one.names[0] != "loss"]
    rows = measure(left, right, pairs, Limit(limit), real)
    return TraceComparison(
        a=_title(a, left),
        b=_title(b, right),
        rows=rows,
        parameters=tuple(_parameter(one, left, right) for one in parameters.pairs),
        first_divergence=first_forward(rows, (_facts(left, "classes"), _facts(right, "classes"))),
        first_backward=first_backward(rows),
        only_a=_alone(values.only_a, parameters.only_a),
        only_b=_alone(values.only_b, parameters.only_b),
        proposals=proposals,
        rules=tuple((str(rule), sum(uses)) for rule, *uses in zip(rules, values.uses, parameters.uses, strict=True)),
        three_way=sum(row.own is not None for row in rows),
        padding=real.says,
        notes=_notes(left, right),
    )


def _read(trace: Path | str | Trace) -> Trace:
    return trace if isinstance(trace, Trace) else read_trace(Path(trace))


def _title(given: Path | str | Trace, trace: Trace) -> str:
    made = str(trace.about.get("made_by", "a trace"))
    return made if isinstance(given, Trace) else f"{given} ({made})"


def _execution(trace: Trace) -> list[str]:
    """The names of all arrays, those of the run in its order; a reference's order is of modules.

    Raises:
        FileError: the order is none, or names what is not there.
    """
    said = [name for entry in _texts(trace, "order") for name in _entry(trace, entry)] + _texts(trace, "backward")
    if missing := [name for name in said if name not in trace]:
        raise _damaged("the order names an array that is not there", some(missing))
    return list(dict.fromkeys([*said, *sorted(trace.arrays, key=natural)]))


def _entry(trace: Trace, entry: str) -> list[str]:
    if entry in trace:
        return [entry]
    return [name for name in (f"in/{entry}",) if name in trace] + [f"out/{entry}"]


def _parameters(trace: Trace) -> list[str]:
    """Parameters under the names that their gradients have."""
    return [f"grad/{name}" for name in _facts(trace, "parameters")]


def _parameter(one: Pair, left: Trace, right: Trace) -> ParameterRow:
    x, y = _facts(left, "parameters")[one.a], _facts(right, "parameters")[one.b]
    try:
        if x["digest"] == y["digest"]:
            return ParameterRow(one.a, one.b, "equal", "")
        shapes, dtypes = (f"{x[key]} in A, {y[key]} in B" for key in ("shape", "dtype"))
        if math.prod(map(int, x["shape"])) != math.prod(map(int, y["shape"])):
            return ParameterRow(one.a, one.b, "different", f"shape {shapes}")
        pairs = [(float(x.get(key, 0.0)), float(y.get(key, 0.0))) for key in FIGURES]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged("the figures of a parameter are wrong", f"{one.a}: {error!r}") from None
    scale = max(abs(value) for both in pairs for value in both)
    apart = max(abs(p - q) for p, q in pairs) if math.isfinite(scale) else math.inf
    if x["dtype"] == y["dtype"] and apart <= SAME * scale:
        return ParameterRow(one.a, one.b, "reordered", f"other bits with equal mean, spread, least and most: another "
                            f"order (a transpose, permuted heads), or small differences; shape {shapes}")  # fmt: skip
    if x["dtype"] != y["dtype"] and apart <= ROUNDED * scale:
        return ParameterRow(one.a, one.b, "rounded", dtypes)
    figures = ", ".join(f"{key} {p:.4g} and {q:.4g}" for key, (p, q) in zip(FIGURES, pairs, strict=True))
    return ParameterRow(one.a, one.b, "different", figures)


def _proposals(left: Trace, right: Trace, made: Pairing) -> tuple[str, ...]:
    """By order and shape, of the modules that have no partner."""
    a, b = (
        [(split(name)[1], trace[name].shape) for name in names if split(name)[0] == "out"]
        for trace, names in ((left, made.only_a), (right, made.only_b))
    )
    return propose(a, b)


def _strangers(made: Pairing, proposals: Sequence[str]) -> MappingError:
    outputs = [[name for name in names if name.startswith("out/")] for names in (made.only_a, made.only_b)]
    maps = " ".join(f"--map '{rule}'" for rule in proposals)
    return MappingError("no value of A has a partner in B", got=f"A makes {some(outputs[0], 6) or 'nothing'}",
                        expected=f"the same names as in B: {some(outputs[1], 6) or 'nothing'}",
                        do=f"map the names; in equal order and of equal shape are {maps}" if maps else
                        "map the names: --map 'PATTERN=PATTERN'")  # fmt: skip


def _alone(values: Sequence[str], parameters: Sequence[str]) -> tuple[str, ...]:
    return (*values, *(f"parameter {split(name)[1]}" for name in parameters if name not in values))


def _notes(left: Trace, right: Trace) -> tuple[str, ...]:
    """How the two runs differ, and what either left out."""
    a, b = left.about, right.about
    both = [key for key in SETTINGS if key in a and key in b]
    found = [f"{key}: {a[key]} in A, {b[key]} in B" for key in both if a[key] != b[key]]
    if _loss(left) != _loss(right):
        found.append(f"gradients are of two losses, and were not compared: {_loss(left)}; {_loss(right)}")
    for side, trace in (("A", left), ("B", right)):
        for key, says in (("skipped", "kept no value of"), ("not_called", "never called")):
            if names := _known(trace, key):
                found.append(f"{side} {says} {some(names)}")
    return tuple(found)


def _known(trace: Trace, key: str) -> list[str]:
    value = trace.about.get(key)
    return list(value) if isinstance(value, (list, Mapping)) else []


def _loss(trace: Trace) -> str:
    """What the gradients are of; a reference's are of one layer."""
    said = trace.about.get("loss")
    return said if isinstance(said, str) else "that of a reference"


def _texts(trace: Trace, key: str) -> list[str]:
    value = trace.about.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _damaged(f"`{key}` is no list of names", type(value).__name__)
    return value


def _facts(trace: Trace, key: str) -> Mapping[str, Any]:
    value = trace.about.get(key, {})
    if not isinstance(value, Mapping):
        raise _damaged(f"`{key}` is no mapping of names", type(value).__name__)
    return value


def _damaged(what: str, got: object) -> FileError:
    return FileError(f"the trace's manifest is damaged: {what}", got=got, do=f"make it again: {MADE_BY}")
