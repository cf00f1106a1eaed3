"""The forward pass: the first wrong value, every mistake that could have made it, and what signs say of the rest."""

from __future__ import annotations

from collections.abc import Iterator

from mindport.debug.diagnosis import attention, parameters, signs, values
from mindport.debug.diagnosis.cause import Cause, Evidence
from mindport.debug.diagnosis.hypothesis import Hypothesis
from mindport.debug.diagnosis.site import Site, weights_of
from mindport.parity.rows import Row

Tier = tuple[Hypothesis, ...]
KNOWN: dict[str, tuple[Tier, ...]] = {  # a later tier is asked where an earlier one reproduces nothing
    "table": ((*parameters.TABLES, *parameters.ALL), parameters.STORED),
    "norm": ((*values.NORMS, *parameters.ALL), parameters.STORED),
    "linear": ((*parameters.LINEARS, *parameters.ALL), parameters.STORED),
    "context": (attention.CONTEXT,),
    "hidden": (values.HIDDEN,),
    "part": (),
    "block": (values.BLOCKS,),
}
FAR = 100  # times a cell's limit: more than inheriting rounding comes to


def explain(evidence: Evidence) -> Iterator[Cause]:
    """Every cause that the forward pass speaks for; none where it is right, or was not looked at."""
    if evidence.reference is None or evidence.ours is None or all(row.state == "pass" for row in evidence.rows):
        return
    facts, row = list(signs.observed(evidence)), first_wrong(evidence)
    yield from facts
    if row is None or f"local/{row.path}" not in evidence.ours or (facts and row.state != "failed"):
        return  # what was seen says it all
    site = Site(evidence, row, inherited=row.state != "failed", weights=weights_of(evidence))
    if site.ours.shape != site.right.shape:
        yield signs.misshapen(site)
        return
    causes = reproduced(site)
    yield from causes
    if not any(cause.score == 1 for cause in causes):
        yield from signs.read(site)


def first_wrong(evidence: Evidence) -> Row | None:
    """The first cell that is wrong by itself; failing that, the first value that is far off in the whole model."""
    local = next((row for row in evidence.rows if row.state == "failed"), None)
    return local or next((row for row in evidence.rows if row.whole > FAR * row.limit), None) or next(
        (row for row in evidence.rows if row.state == "inherited"), None
    )  # fmt: skip


def reproduced(site: Site) -> list[Cause]:
    """The mistakes that make our value of the reference's input; where none does, those that nearly do."""
    found: list[Cause] = []
    for tier in (*(KNOWN[site.kind] if site.is_known else ()), values.ANY):
        told = list(filter(None, (hypothesis.cause(site) for hypothesis in tier)))
        if exact := [cause for cause in told if cause.score == 1]:
            return exact
        found += told if tier is not values.ANY else []  # any value is nearly 0, or nearly a multiple, of a larger one
    return found
