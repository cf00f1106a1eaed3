"""Mistakes in the parameters of a table, a norm or a linear map: another tensor, another order, another precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from mindport.config.schema import shapes
from mindport.debug.diagnosis import cells
from mindport.debug.diagnosis.cause import explained
from mindport.debug.diagnosis.cells import Array
from mindport.debug.diagnosis.hypothesis import Candidates, Hypothesis, one
from mindport.debug.diagnosis.orders import by_halves, same_columns
from mindport.debug.diagnosis.site import Site, tried
from mindport.parity import metrics
from mindport.parity.taps import LOGITS
from mindport.weights.dtypes import NUMPY

FUSED = (("attn.q", "attn.k", "attn.v"), ("mlp.gate", "mlp.up"))  # what one foreign tensor may hold
NEAR = 16  # tokens that a vocabulary is looked for around a row
ALIKE = 0.5  # a correlation above which a tensor is another state of the right one
SEVERAL = 3  # tensors of a layer, from which on it is the layer that has moved
TABLE = "compare the table of names: which tensor is written into this parameter"
ORDER = "compare how the converter reshapes this tensor with what the family's class does"
LOAD = "print which names matched and how many parameters were loaded; look at the first that did not"


def _parts(site: Site) -> list[str]:
    """The parts that may share a foreign tensor with this one, itself included."""
    group = next((group for group in FUSED if site.part in group), ()) if site.layer is not None else ()
    return [part for part in group if site.sibling(part) in site.order]


def _swapped(site: Site) -> Candidates:
    for part in _parts(site):
        if part != site.part and (other := _made(site, part)).shape == site.right.shape:
            yield part, other


def _made(site: Site, part: str) -> Array:
    return site.reference(site.sibling(part))


def _split(site: Site) -> Candidates:
    """Every column is one of the fused projection's, and they are of several parts."""
    values = [_made(site, part) for part in _parts(site)]
    if len(values) > 1 and (found := same_columns(site.ours, pool := np.concatenate(values, -1))) is not None:
        ends = np.cumsum([value.shape[-1] for value in values])
        if len(set(np.searchsorted(ends, found, side="right").tolist())) > 1:
            yield " and ".join(_parts(site)), pool[..., found]


def _heads(site: Site) -> int:
    return {"attn.q": site.config.num_attention_heads, "attn.k": site.config.num_key_value_heads}.get(site.part, 0)


def _side_by_side(site: Site) -> Candidates:
    if heads := _heads(site):
        order = by_halves(site.right.shape[-1], heads)
        yield "in Meta's order, pairs side by side", site.right[..., np.argsort(order)]
        yield "put by halves twice", site.right[..., order]


def _k_permuted(site: Site) -> Candidates:
    heads, width, queries = _heads(site), site.right.shape[-1], site.config.num_attention_heads
    if heads and heads != queries and width % (2 * queries) == 0:
        meta = np.argsort(by_halves(width, heads))
        yield str(queries), site.right[..., meta[by_halves(width, queries)]]


def _rows(site: Site) -> Candidates:
    if (found := same_columns(site.ours, site.right)) is not None and len(set(found.tolist())) == found.size:
        yield _runs(found), site.right[..., found]


def _columns(site: Site) -> Candidates:
    weight, theirs = site.weight(), _ours(site)
    if theirs is not None and (found := same_columns(theirs, weight)) is not None:
        yield _runs(found), site.made_by(weight[:, found], site.bias())


def _runs(found: Array) -> str:
    """Places that are not their own, as a few runs: 16:32 ← 32:48."""
    ends = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(found.tolist())) if b != a + 1), found.size]
    runs = [f"{i}:{j} ← {found[i]}:{found[j - 1] + 1}" for i, j in pairwise(ends) if found[i] != i]
    return ", ".join(runs[:3]) + ", …" * (len(runs) > 3)


def _ours(site: Site) -> Array | None:
    """The weight that was run, as our directory has it."""
    weights, name = tried(site.evidence), f"{site.cell}.weight"
    if site.path == LOGITS and "head.weight" in weights:
        name = "head.weight"
    found = weights[name].astype(np.float64) if name in weights else None
    return found if found is not None and found.shape == site.weight().shape else None


def _our_bias(site: Site) -> Array | None:
    weights, name = tried(site.evidence), f"{site.cell}.bias"
    return weights[name].astype(np.float64) if name in weights else None


def _correlation(site: Site) -> float:
    ours = _ours(site)
    assert ours is not None
    return metrics.cosine(ours - ours.mean(), site.weight() - site.weight().mean())


def _as_stored(site: Site) -> Iterator[tuple[float, Array]]:
    """(likeness to the right tensor, what our stored one makes)."""
    if (ours := _ours(site)) is not None:
        yield _correlation(site), site.made_by(ours, _our_bias(site))


def _multiple(site: Site) -> Candidates:
    if (ours := _ours(site)) is not None:
        factor = float((ours * site.weight()).sum() / max((site.weight() ** 2).sum(), metrics.TINY))
        yield f"{factor:.4g}", site.made_by(factor * site.weight(), site.bias())


def _reordered(site: Site) -> Candidates:
    """The same numbers in another order; what order that is, the hypotheses before this one did not find."""
    ours, right = _ours(site), site.weight()
    if ours is not None and ours.size > 1 and np.array_equal(np.sort(ours, None), np.sort(right, None)):
        yield f"{np.count_nonzero(ours != right):,} of {right.size:,}", site.made_by(ours, _our_bias(site))


def _random(site: Site) -> Candidates:
    if any(_reordered(site)):
        return
    yield from ((f"{alike:.2f}", made) for alike, made in _as_stored(site) if abs(alike) < ALIKE)


def _stale(site: Site) -> Candidates:
    ours = _ours(site)
    if ours is None or any(_reordered(site)):
        return
    places = f"{np.count_nonzero(ours != site.weight()):,} of {ours.size:,}"
    yield from ((f"correlation {alike:.4f}, {places} numbers differ", made) for alike, made in _as_stored(site)
                if abs(alike) >= ALIKE)  # fmt: skip


def _other(site: Site) -> Candidates:
    """Any tensor of this shape, with the right bias or with its own."""
    own = site.weight().shape
    for name, shape in shapes(site.config).items():
        cell, _, leaf = name.rpartition(".")
        if leaf == "weight" and cell != site.cell and shape == own:
            weight = site.weight(cell)
            yield f"{cell}'s", site.made_by(weight, site.bias())
            if site.bias() is not None and site.bias(cell) is not None:
                yield f"{cell}'s, with its bias", site.made_by(weight, site.bias(cell))


def _layer(site: Site) -> Candidates:
    """The same parameter of another layer, where the other parameters of this layer are that one's too."""
    wrong = [site.at(row) for row in site.evidence.rows if row.state == "failed"]
    wrong = [other for other in wrong if other.layer == site.layer and other.kind in ("norm", "linear")]
    if site.layer is None or len(wrong) < SEVERAL:
        return
    for layer in set(range(site.config.num_hidden_layers)) - {site.layer}:
        if all(explained(part.ours, part.right, _of(part, layer), part.limit) == 1 for part in wrong[:SEVERAL]):
            yield f"{site.layer} holds what belongs to {layer}", _of(site, layer)


def _of(site: Site, layer: int) -> Array:
    cell = f"blocks.{layer}.{site.part}"
    return site.made_by(site.weight(cell), site.bias(cell))


def _narrowed(site: Site) -> Candidates:
    bias = site.bias()
    for code in ("BF16", "F16"):
        kind = NUMPY[code]
        weight = site.weight().astype(kind).astype(np.float64)
        yield str(kind), site.made_by(weight, None if bias is None else bias.astype(kind).astype(np.float64))


def _transposed(site: Site) -> Candidates:
    weight = site.weight()
    if weight.shape[0] == weight.shape[-1]:
        yield from one(site.made_by(weight.T, site.bias()))


def _with_bias(times: float) -> Callable[[Site], Candidates]:
    def would_be(site: Site) -> Candidates:
        if (bias := site.bias()) is not None:
            yield from one(site.made_by(site.weight(), times * bias))

    return would_be


def _zero(site: Site) -> Candidates:
    return one(site.made_by(np.zeros_like(site.weight()), site.bias()))


def _tied(site: Site) -> Candidates:
    if site.path == LOGITS and not site.config.tie_word_embeddings:
        yield from one(cells.linear(site.x, site.weight("embed")))


def _vocabulary(site: Site) -> Candidates:
    if site.path not in ("embed", LOGITS):
        return
    rows, padding = site.config.vocab_rows, site.config.vocab_rows - site.config.vocab_size
    weight = site.weight()
    for by in dict.fromkeys([*(sign * n for n in range(1, NEAR + 1) for sign in (1, -1)), padding, -padding]):
        head = site.path == LOGITS
        yield f"{by:+d}", np.roll(site.right, by, -1) if head else site.made_by(weight, x=(site.x - by) % rows)


def _positions(site: Site) -> Candidates:
    if site.path == "position":
        weight = site.weight()
        for by in (1, -1, 2, -2):
            yield f"{by:+d}", site.made_by(weight, x=(site.x + by) % len(weight))


def _embedding_scale(site: Site) -> Candidates:
    if site.path == "embed":
        yield f"not multiplied by {site.config.embedding_scale:.4g}", site.right / site.config.embedding_scale
        yield "multiplied by √hidden_size", site.right * site.config.hidden_size**0.5


TABLES = (
    Hypothesis("vocabulary_shifted", "the rows of the vocabulary are shifted by {}",
               "look at where padding or special tokens are put in: token i is row i", _vocabulary),
    Hypothesis("positions_shifted", "the positions are shifted by {}",
               "count positions from 0, and leave the table as the source has it", _positions),
    Hypothesis("embedding_scale", "the embedding is {}", "look at the family's class: Gemma multiplies by √hidden_size",
               _embedding_scale),
)  # fmt: skip

LINEARS = (
    Hypothesis("transposed", "the weight is transposed", "a Conv1D keeps [in, out], a linear map [out, in]; a square "
               "one shows no shape", _transposed),
    Hypothesis("bias_twice", "the bias is added twice", "with tensor parallelism, one rank adds the bias",
               _with_bias(2)),
    Hypothesis("head_tied", "the head is the embedding, though the model has a head of its own",
               "look at tie_word_embeddings in config.json", _tied),
    Hypothesis("tensors_swapped", "this is the value of {}: the two have changed places, or one was taken twice",
               TABLE, _swapped),
    Hypothesis("pairs_side_by_side", "the rows of a head are {}",
               "put Meta's rows by halves once, and rotate halves", _side_by_side),
    Hypothesis("k_permuted", "k was put by halves with {} heads, which are q's",
               "permute k with num_key_value_heads", _k_permuted),
    Hypothesis("rows_moved", "rows of the weight are in another order: {}", ORDER, _rows),
    Hypothesis("fused_split", "rows of {} are mixed: the fused projection is split in another way", ORDER, _split),
    Hypothesis("columns_moved", "columns of the weight are in another order: {}", ORDER, _columns),
    Hypothesis("vocabulary_shifted", "the rows of the vocabulary are shifted by {}",
               "look at where padding or special tokens are put in: token i is row i", _vocabulary),
)  # fmt: skip

ALL = (
    Hypothesis("bias_dropped", "the bias is not added", "list the tensors that nothing consumed", _with_bias(0)),
    Hypothesis("zero_weight", "the weight is zero: it was never loaded", LOAD, _zero),
    Hypothesis("layers_moved", "the layers are in another order: layer {}",
               "sort layers by number, not by text: 2 comes before 10", _layer),
    Hypothesis("other_weight", "the weight is {}", TABLE, _other),
    Hypothesis("narrowed", "the weights went through {}", "convert with the dtype of the source (--dtype keep)",
               _narrowed),
)  # fmt: skip

STORED = (
    Hypothesis("weight_scaled", "the weight is multiplied by {}", "look for a scale that is folded into the weight",
               _multiple),
    Hypothesis("weight_reordered", "our directory holds the numbers of this tensor in another order: {} are elsewhere",
               ORDER, _reordered),
    Hypothesis("random_weight", "our directory holds another tensor, of no likeness to the source's (correlation {}): "
               "a random one, of another model, or computed from it", LOAD, _random),
    Hypothesis("stale_weight", "our directory holds another state of this tensor ({}): of an earlier checkpoint, or "
               "changed after it was read", "convert again from the files that the reference reads", _stale),
)  # fmt: skip
