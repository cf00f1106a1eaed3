"""What is seen without computing anything: modules that never ran, and the course of the error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mindport.debug.diagnosis.cause import Cause, Evidence
from mindport.debug.diagnosis.site import Site, tried
from mindport.parity import metrics
from mindport.parity.taps import LOGITS

SEEN = 1.0  # a fact, not a guess
OWN_SHARE = 0.1  # of its error: so far is a value from itself in two runs when it is not repeatable
KNOWS_NOTHING, KNOWS = 0.02, 0.05  # of ln V: how near to it, and how far below it a loss is
GROWS = 1.05  # times the layer before, at least: what grows less may be one error everywhere
SMALL = 1e-2  # relative: the forms of GELU are nearer to each other than that, and no other activation is


@dataclass(frozen=True)
class Sign:
    """A pattern that a cause often makes.

    Attributes:
        name: of the cause.
        says: the likely mistake.
        next_action: what to look at.
        score: below ½; the plainer the pattern, the higher.
        seen: what shows it, "" when it does not.
    """

    name: str
    says: str
    next_action: str
    score: float
    seen: Callable[[Site], str]


def observed(evidence: Evidence) -> Iterator[Cause]:
    """What our trace itself tells: modules that were not run, layers that ran in another order."""
    assert evidence.reference is not None and evidence.ours is not None
    ran, due = evidence.ours.about.get("order", []), evidence.reference.about["order"]
    if missing := [path for path in due if path not in ran]:
        yield Cause("never_run", "this module is never run", missing[0],
                    f"{len(missing)} of {len(due)} values are not in our trace", "look where the code that calls it "
                    "leaves it out, or the configuration says that there is none", SEEN)  # fmt: skip
        return
    turns = zip(_layers(ran), _layers(due), strict=True)
    if wrong := [(ours, theirs) for ours, theirs in turns if ours != theirs]:
        seen = ", ".join(f"{ours} in the place of {theirs}" for ours, theirs in wrong[:2])
        yield Cause("order_of_layers", "the layers run in another order", wrong[0][1], seen,
                    "look at the loop over the layers", SEEN)  # fmt: skip


def _layers(order: list[str]) -> list[str]:
    return [path for path in order if path.startswith("blocks.") and path.count(".") == 1]


def misshapen(site: Site) -> Cause:
    """Another shape: nothing more can be compared."""
    return Cause("shape", f"the value has shape {site.ours.shape}, not {site.right.shape}", site.path, "both traces",
                 "print the shapes along the way to this module", SEEN)  # fmt: skip


def read(site: Site) -> Iterator[Cause]:
    """Every sign that this site shows, and in the end that it is wrong."""
    for sign in SIGNS:
        if seen := sign.seen(site):
            yield Cause(sign.name, sign.says, site.path, seen, sign.next_action, sign.score)


def _not_finite(site: Site) -> str:
    bad = int(np.count_nonzero(~np.isfinite(site.ours)))
    return f"{bad} of {site.ours.size} numbers are NaN or infinite" if bad else ""


def _weight_not_finite(site: Site) -> str:
    """Of the parameters of this cell in our directory."""
    found = {name: x for name, x in tried(site.evidence).items() if name.rpartition(".")[0] == site.cell}
    bad = {name: np.count_nonzero(~np.isfinite(x.astype(np.float32))) for name, x in found.items()}
    return ", ".join(f"{count} of {found[name].size} numbers of {name}" for name, count in bad.items() if count)


def _two_runs(site: Site) -> str:
    """The same input, and another value: alone, and in the whole model where nothing before it is wrong."""
    rows, ours = site.evidence.rows, site.evidence.ours
    most = OWN_SHARE * site.row.relative
    if ours is None or site.inherited or any(row.whole > most for row in rows[: rows.index(site.row)]):
        return ""
    apart = metrics.relative(ours[f"out/{site.path}"], site.ours)
    return f"two runs of it differ by {apart:.1g}" if apart > most else ""


def _nothing_loaded(site: Site) -> str:
    reference, ours = site.evidence.reference, site.evidence.ours
    assert reference is not None and ours is not None
    nats, right = math.log(site.config.vocab_rows), reference.about["loss"]
    loss = metrics.next_token_loss(ours[f"out/{LOGITS}"], reference["ids"])
    known = abs(loss - nats) < KNOWS_NOTHING * nats and right < (1 - KNOWS) * nats
    return f"loss {loss:.3f}, ln V {nats:.3f}, the reference's loss {right:.3f}" if known else ""


def _course(first: bool) -> Callable[[Site], str]:
    """Attention is right at one end of the sequence and wrong at the other."""

    def seen(site: Site) -> str:
        at = site.row.positions
        if site.kind != "context" or len(at) < 2:
            return ""
        right, wrong = (at[0], at[-1]) if first else (at[-1], at[0])
        said = ("position 0", "the last") if first else ("the last position", "position 0")
        return f"{said[0]} is right, {said[1]} off by {wrong:.1g}" if right <= site.limit < wrong else ""

    return seen


def _by_layer(site: Site) -> str:
    """Attention of layer 0 is exact, and that of the later ones is wrong, each more than the one before."""
    first, *later = (row for row in site.evidence.rows if row.path.endswith("attn.context"))
    if site.kind != "context" or first.state != "pass" or any(row.state != "failed" for row in later):
        return ""
    wrong = [row.relative for row in later]
    grows = len(wrong) > 1 and all(b > GROWS * a for a, b in pairwise(wrong))
    return f"layer 0 is exact, then {wrong[0]:.1g} … {wrong[-1]:.1g}" if grows else ""


def _only(part: str, holds: Callable[[Site], bool] = lambda site: True) -> Callable[[Site], str]:
    """The first wrong value is of this kind."""

    def seen(site: Site) -> str:
        shown = site.kind == part and holds(site)
        return f"everything before it is right; off by {site.row.relative:.1g}" if shown else ""

    return seen


def _only_k(site: Site) -> bool:
    """Of all projections to q, k and v."""
    wrong = {row.path[-2:] for row in site.evidence.rows if row.state == "failed"} & {".q", ".k", ".v"}
    return wrong == {".k"} and site.config.num_key_value_heads < site.config.num_attention_heads


def _of_a_cell(site: Site) -> str:
    off = f"alone, on the reference's own input, off by {site.row.relative:.1g} (limit {site.limit:.0e})"
    return "" if site.inherited else off


def _of_the_whole(site: Site) -> str:
    return f"every cell alone is right; in the whole model off by {site.row.whole:.1g}" if site.inherited else ""


SIGNS = (
    Sign("not_repeatable", "two runs of the same input differ", "look for a buffer that nobody fills, random numbers, "
         "or sums in no fixed order", 0.49, _two_runs),
    Sign("weight_not_finite", "our directory holds a weight that is NaN or infinite", "look at the source's "
         "tensor, and at the dtype that it went through", 0.485, _weight_not_finite),
    Sign("not_finite", "it overflows, or divides 0 by 0", "run it in float32; look for a row that is masked whole",
         0.48, _not_finite),
    Sign("nothing_loaded", "next to nothing was loaded: the model knows no more than a fresh one", "print which "
         "names matched, and the first that did not", 0.45, _nothing_loaded),
    Sign("rotary", "rotary positions (theta, scaling, layout) or the scale of the scores", "print the first inverse "
         "frequencies of both sides", 0.4, _course(first=True)),
    Sign("mask", "the causal mask", "print the mask of four tokens", 0.4, _course(first=False)),
    Sign("layer_scale", "a scale that depends on the layer is missing", "look at scale_attn_by_inverse_layer_idx", 0.35,
         _by_layer),
    Sign("k_heads", "k alone is wrong, and it has fewer heads than q: permuted with the wrong number",
         "permute k with num_key_value_heads", 0.35, _only("linear", _only_k)),
    Sign("norm", "the epsilon, or a weight that is stored around zero", "compare the norm on a small input", 0.3,
         _only("norm")),
    Sign("gelu", "another form of the activation", "hold the activations of a table beside it", 0.3,
         _only("hidden", lambda site: site.row.relative < SMALL)),
    Sign("cell", "this cell computes something else than the reference's, which no known mistake makes",
         "open it, feed it the reference's input, and compare step by step", 0.1, _of_a_cell),
    Sign("wiring", "what is between the cells: what they are given is wrong", "compare the forward of the layer and of "
         "the model with the family's class", 0.1, _of_the_whole),
)  # fmt: skip
