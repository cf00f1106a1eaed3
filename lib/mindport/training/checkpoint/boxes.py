"""Parts of arrays: a slice for each axis, with both ends named, as tensor parallelism cuts them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from mindport.errors import UsageError
from mindport.weights.layouts import Shape

Box = tuple[slice, ...]


def whole(shape: Shape) -> Box:
    """All of an array."""
    return tuple(slice(0, length) for length in shape)


def boxed(part: Box, shape: Shape) -> Box:
    """A part with both ends of every slice named; axes that are not mentioned are whole.

    Raises:
        UsageError: it leaves the array, or skips elements.
    """
    ends = tuple(axis.indices(length) for axis, length in zip(part, shape, strict=False))
    inside = all(
        axis.stop in (None, stop) and axis.start in (None, start)
        for axis, (start, stop, _) in zip(part, ends, strict=False)
    )
    if len(part) > len(shape) or not inside or any(step != 1 or stop < start for start, stop, step in ends):
        raise UsageError("not a part of this array", got=written(part), expected=f"a slice in {list(shape)}")
    return tuple(slice(start, stop) for start, stop, _ in ends) + whole(shape)[len(part) :]


def shape_of(box: Box) -> Shape:
    """The shape of a part."""
    return tuple(axis.stop - axis.start for axis in box)


def overlap(a: Box, b: Box) -> Box | None:
    """What two parts of an array have in common; None: nothing."""
    both = tuple(slice(max(x.start, y.start), min(x.stop, y.stop)) for x, y in zip(a, b, strict=True))
    return both if all(axis.start < axis.stop for axis in both) else None


def within(inner: Box, outer: Box) -> Box:
    """A part of an array as a part of one that has it inside."""
    return tuple(slice(x.start - y.start, x.stop - y.start) for x, y in zip(inner, outer, strict=True))


def tiles(boxes: Iterable[Box], shape: Shape) -> bool:
    """Whether parts make the whole array, each element once; a part that stands there twice counts once."""
    distinct = list({tuple((axis.start, axis.stop) for axis in box): box for box in boxes}.values())
    inside = all(len(box) == len(shape) and _inside(box, shape) for box in distinct)
    apart = inside and all(overlap(a, b) is None for a, b in itertools.combinations(distinct, 2))
    return apart and bool(distinct) and sum(math.prod(shape_of(box)) for box in distinct) == math.prod(shape)


def written(box: Box) -> list[list[int | None]]:
    """A part as JSON: [start, stop] of each axis."""
    return [[axis.start, axis.stop] for axis in box]


def read(value: Iterable[tuple[int, int]]) -> Box:
    """A part of what `written` gave."""
    return tuple(slice(start, stop) for start, stop in value)


def _inside(box: Box, shape: Shape) -> bool:
    return all(0 <= axis.start <= axis.stop <= length for axis, length in zip(box, shape, strict=True))
