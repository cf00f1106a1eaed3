"""Whether layouts of a training make the same training of it."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from mindport.results import Property, Result, verdict
from mindport.tables import Table

LIMIT = 1e-6  # of a loss: float32 sums in another order
HOPELESS = 1e-3  # losses so far apart are no matter of the order of sums, whatever that costs
NONE = (math.nan, math.nan)  # first and last loss of no steps
ORDER = 4.0  # so many times what another order of sums costs one process is still order


@dataclass(frozen=True)
class ProcessShare:
    """What one process had of a training.

    Attributes:
        rank: its number; dp_rank, tp_rank: its place in the grid.
        parameters: numbers that it trained.
        q: shape of the first query projection on it.
        rows: of its first batch, by the first four digits of their CRC-32.
    """

    rank: int
    dp_rank: int
    tp_rank: int
    parameters: int
    q: tuple[int, ...]
    rows: tuple[str, ...]


@dataclass(frozen=True)
class LayoutRun:
    """One layout's training.

    Attributes:
        layout: as text.
        loss, norm: of each step.
        held_out: the last measurement on held-out text, nats.
        tokens, seconds: of each step, over all processes.
        shares: of its processes; none for the one beside which the others are held.
        device: what computed.
    """

    layout: str
    loss: tuple[float, ...]
    norm: tuple[float, ...]
    held_out: float
    tokens: tuple[int, ...]
    seconds: tuple[float, ...]
    shares: tuple[ProcessShare, ...] = ()
    device: str = "CPU"

    @property
    def rate(self) -> float:
        """Tokens a second: the median over the steps without the first, which compiles."""
        timed = [n / s for n, s in zip(self.tokens[1:], self.seconds[1:], strict=True) if s > 0]
        return statistics.median(timed) if timed else math.nan


def apart(a: LayoutRun, b: LayoutRun) -> float:
    """The largest difference of their losses; infinite where a loss is no number, or they took other steps."""
    if len(a.loss) != len(b.loss):
        return math.inf
    return max((_distance(x, y) for x, y in zip(a.loss, b.loss, strict=True)), default=math.inf)


def _distance(x: float, y: float) -> float:
    return abs(x - y) if math.isfinite(x) and math.isfinite(y) else math.inf


@dataclass(frozen=True)
class LayoutParity(Result):
    """Layouts held beside one process.

    Attributes:
        model: what was trained.
        dropout: the probability, None for the model's own.
        one: the training in one process.
        courses: the same under each layout.
        order: how far apart losses are in one process by our linear maps and norms and by plain ones, which take sums
            in another order; measured where a layout went beyond the limit.
    """

    model: str
    dropout: float | None
    one: LayoutRun
    courses: tuple[LayoutRun, ...]
    order: float | None = None

    @property
    def device(self) -> str:
        """What computed."""
        return self.one.device

    @property
    def limit(self) -> float:
        """How far losses may be apart; an order that cost no number, or too much, excuses nothing."""
        if self.order is None or not math.isfinite(self.order):
            return LIMIT
        return min(max(LIMIT, ORDER * self.order), HOPELESS)

    @property
    def worst(self) -> float:
        """The largest difference of a loss, under any layout."""
        return max((apart(course, self.one) for course in self.courses), default=math.inf)

    @property
    def ok(self) -> bool:
        return bool(self.courses) and self.worst <= self.limit

    def headline(self) -> str:
        names = " and ".join(course.layout for course in self.courses)
        figure = f"{self.worst:.1e} apart at most in {len(self.one.loss)} steps ({self._limit()})"
        if self.ok:
            return f"{names}: the training of one process, losses {figure}"
        return f"not the same training: {', '.join(self.wrong)}; losses {figure}"

    @property
    def wrong(self) -> tuple[str, ...]:
        """Layouts beyond the limit, with their first wrong step."""
        return tuple(f"{course.layout} from step {self._first(course)} on" for course in self.courses
                     if not apart(course, self.one) <= self.limit)  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        return (self._losses(), self._shares())

    def properties(self) -> tuple[Property, ...]:
        how = f"{len(self.one.loss)} steps of {self.model} as processes over MindSpore's msrun, beside one process"
        return tuple(
            verdict(f"a training under {course.layout} is that of one process", apart(course, self.one) <= self.limit,
                    how, f"losses {apart(course, self.one):.1e} apart ({self._limit()})", course.device)
            for course in self.courses
        )  # fmt: skip

    def _losses(self) -> Table:
        rows = [(course.layout, len(course.shares) or 1, *map(_digits, (*course.loss[:1], *course.loss[-1:]) or NONE),
                 *((None, None) if course is self.one else (apart(course, self.one), _relative(course, self.one))),
                 _digits(course.held_out), f"{course.rate:.0f}") for course in (self.one, *self.courses)]  # fmt: skip
        return Table("the same training under each layout",
                     ("layout", "processes", "first loss", "last loss", "losses apart", "norms apart, relative",
                      "held out", "tokens/s"), rows)  # fmt: skip

    def _shares(self) -> Table:
        rows = [(course.layout, share.rank, share.dp_rank, share.tp_rank, len(share.rows),
                 " ".join(share.rows), f"{share.parameters:,}",
                 " × ".join(map(str, share.q))) for course in self.courses for share in course.shares]  # fmt: skip
        return Table("what each process had of it",
                     ("layout", "rank", "replica (dp)", "share (tp)", "rows", "checksums of its first rows",
                      "parameters", "first query projection"), rows)  # fmt: skip

    def _limit(self) -> str:
        if self.limit == LIMIT:
            return f"limit {LIMIT:.0e}"
        return f"limit {self.limit:.1e}, {ORDER:g} times what another order of sums costs one process"

    def _first(self, course: LayoutRun) -> int:
        pairs = zip(course.loss, self.one.loss, strict=False)
        steps = (step for step, (x, y) in enumerate(pairs, 1) if not _distance(x, y) <= self.limit)
        return next(steps, min(len(course.loss), len(self.one.loss)) + 1)


def _relative(a: LayoutRun, b: LayoutRun) -> float:
    """The largest difference of their norms; infinite as in `apart`."""
    if len(a.norm) != len(b.norm):
        return math.inf
    return max((_distance(x, y) / max(abs(y), 1e-30) for x, y in zip(a.norm, b.norm, strict=True)), default=math.inf)


def _digits(loss: float) -> str:
    return f"{loss:.6f}"
