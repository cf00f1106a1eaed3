"""What a plan answers: the layouts that fit, fastest first, with memory and time by part, and the refused ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindport.mindformers.layout import Layout
from mindport.parallel.plan.constants import read
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.rules import Refused
from mindport.results import Property, Result, plain
from mindport.tables import Table

ESTIMATED = "estimated, not measured: there is no NPU here"
CLOSE = 0.15  # how far from published rows the estimate may be
GB = 1e9


@dataclass(frozen=True)
class Candidate:
    """A layout with everything that is expected of it.

    Attributes:
        layout: the degrees.
        batch: samples of a micro-batch.
        layers: of each pipeline stage.
        stage: the stage whose cards are fullest.
        memory: bytes by part on a card of that stage.
        stages: bytes on a card of every stage.
        limit: bytes that a card offers.
        time: seconds of an optimizer step by part.
        tokens_per_second: of one card.
        mfu: share of the peak that goes into the model's own FLOPs; recomputation is not one of them.
        expressible: "yes", or what MindSpore Transformers' YAML lacks for it.
        settings: the layout in MindSpore Transformers' words.
    """

    layout: Layout
    batch: int
    layers: tuple[int, ...]
    stage: int
    memory: dict[str, float]
    stages: tuple[float, ...]
    limit: float
    time: dict[str, float]
    tokens_per_second: float
    mfu: float
    expressible: str
    settings: dict[str, Any]

    @property
    def needed(self) -> float:
        """Bytes of the fullest card."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        return self.needed <= self.limit

    @property
    def seconds(self) -> float:
        """Of an optimizer step."""
        return sum(self.time.values())


@dataclass(frozen=True)
class End:
    """What the best layout comes to with one constant at an end of its range."""

    constant: str
    value: float
    tokens_per_second: float
    needed: float
    fits: bool


@dataclass(frozen=True)
class Plan(Result):
    """The layouts of a job; every figure is an estimate.

    Attributes:
        job: what was laid out.
        tried, legal, fitting: how many layouts there are, break no rule, and fit into memory as well.
        refused: the others, by rule.
        close: how many of those are within 15 % of the fastest: the estimate cannot tell them apart.
        ranked: the fastest that fit.
        smallest: when none fits, the legal one that needs the least memory.
        ends: what the best comes to within the ranges of the constants.
        seconds: what the search took.
    """

    job: Job
    tried: int
    legal: int
    fitting: int
    close: int
    refused: tuple[Refused, ...]
    ranked: tuple[Candidate, ...]
    smallest: tuple[Candidate, ...]
    ends: tuple[End, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return bool(self.ranked)

    @property
    def best(self) -> Candidate | None:
        """The fastest that MindSpore Transformers' YAML can say, else the fastest; None when none fits."""
        said = (candidate for candidate in self.ranked if candidate.expressible == "yes")
        return next(said, self.ranked[0] if self.ranked else None)

    def headline(self) -> str:
        job, best = self.job, self.best
        where = f"{job.devices:,} × {job.hardware.device}, {job.seq:,} tokens, batch {job.global_batch:,}"
        count = f"{self.tried:,} layouts tried in {self.seconds:.2f} s"
        if best is None:
            least, limit = self.smallest, _gb(job.limit)
            why = f"the smallest needs {_gb(least[0].needed)} of {limit} a card" if least else "none is legal"
            return f"No layout fits: {where}; {why}; {count} ({ESTIMATED})."
        doubt = "" if held_to(job) else "; a model or length beyond the published rows, where small products are slower"
        unsaid = "" if best.expressible == "yes" else " (no YAML says it)"
        return (
            f"{best.layout}{unsaid}: {best.tokens_per_second:,.0f} tokens/s a card, MFU {best.mfu:.0%}, "
            f"{_gb(best.needed)} of {_gb(job.limit)} a card; {where}; {count}, {self.fitting:,} fit, "
            f"{self.close:,} of them within {CLOSE:.0%} of the fastest, too near to tell apart ({ESTIMATED}{doubt})."
        )

    def tables(self) -> tuple[Table, ...]:
        shown = self.ranked or self.smallest
        return (*(self._described(shown) if shown else ()), refused_table(self.refused), constants_table(self.job))

    def properties(self) -> tuple[Property, ...]:
        best = self.best
        said = f"{best.layout}: {best.tokens_per_second:,.0f} tokens/s a card" if best else "no layout fits"
        return (Property("a layout fits the cluster's cards", "not verified", ESTIMATED, said),)

    def as_dict(self) -> dict[str, Any]:
        job = {name: value for name, value in vars(self.job).items() if name not in ("model", "hardware", "size")}
        job |= {"device": self.job.hardware.device, "parameters": self.job.size.parameters,
                "model_type": self.job.model.model_type, "constants": plain(self.job.hardware.constants)}  # fmt: skip
        names = ("tried", "legal", "fitting", "close", "refused", "ends", "seconds")
        rows = {name: [as_dict(candidate) for candidate in getattr(self, name)] for name in ("ranked", "smallest")}
        return {"ok": self.ok, "headline": self.headline(), "note": ESTIMATED, "job": job,
                "best": self.best and str(self.best.layout), **plain({name: getattr(self, name) for name in names}),
                **rows}  # fmt: skip

    def _described(self, shown: tuple[Candidate, ...]) -> tuple[Table, ...]:
        best = self.best or shown[0]
        title = "Fastest layouts" if self.ranked else "Nothing fits; the smallest"
        ends = (ends_table(best, self.ends),) if self.ends else ()
        return (ranked_table(shown, title), memory_table(shown), time_table(shown), stage_table(best),
                settings_table(best), *ends)  # fmt: skip


def held_to(job: Job) -> bool:
    """Whether the size and the length are among those that published rows test the estimate with."""
    ranges, found = read()["held_to"], {"parameters": job.size.parameters, "seq": job.seq}
    return all(low <= found[name] <= high for name, (low, high) in ranges.items())


def as_dict(candidate: Candidate) -> dict[str, Any]:
    """A candidate as JSON values, with its totals and its layout as text too."""
    totals = {"text": str(candidate.layout), "needed": candidate.needed, "fits": candidate.fits,
              "seconds": candidate.seconds}  # fmt: skip
    return {**plain(candidate), **totals}


def ranked_table(candidates: tuple[Candidate, ...], title: str) -> Table:
    """One line a layout."""
    rows = [(str(c.layout), c.batch, f"{c.tokens_per_second:,.0f}", f"{c.mfu:.1%}", f"{c.seconds:.3g}",
             f"{c.needed / GB:.1f}", f"{c.limit / GB:.1f}", c.expressible) for c in candidates]  # fmt: skip
    columns = ("layout", "micro-batch", "tokens/s a card", "MFU", "s a step", "GB a card", "limit, GB", "YAML")
    return Table(f"{title} ({ESTIMATED})", columns, rows)


def memory_table(candidates: tuple[Candidate, ...]) -> Table:
    """GB by part, on the fullest card."""
    names = list(candidates[0].memory)
    rows = [(str(c.layout), c.stage, *(f"{c.memory[name] / GB:.2f}" for name in names), f"{c.needed / GB:.2f}")
            for c in candidates]  # fmt: skip
    return Table("Memory by part, GB on a card of the fullest stage", ("layout", "stage", *names, "all"), rows)


def time_table(candidates: tuple[Candidate, ...]) -> Table:
    """Shares of a step by part."""
    names = list(candidates[0].time)
    rows = [(str(c.layout), *(f"{c.time[name] / c.seconds:.1%}" for name in names), f"{c.seconds:.3g}")
            for c in candidates]  # fmt: skip
    return Table("Time by part, share of a step", ("layout", *names, "s a step"), rows)


def stage_table(candidate: Candidate) -> Table:
    """Layers and GB of each pipeline stage."""
    stages = zip(candidate.layers, candidate.stages, strict=True)
    rows = [(i, layers, f"{size / GB:.2f}") for i, (layers, size) in enumerate(stages)]
    return Table(f"Pipeline stages of {candidate.layout}", ("stage", "layers", "GB a card"), rows)


def settings_table(candidate: Candidate) -> Table:
    """The layout in MindSpore Transformers' words."""
    return Table(f"MindSpore Transformers' settings for {candidate.layout}; not run here", ("setting", "value"),
                 [(name, str(value)) for name, value in candidate.settings.items()])  # fmt: skip


def ends_table(candidate: Candidate, ends: tuple[End, ...]) -> Table:
    """How far the answer moves within the ranges of the constants."""
    rows = [(e.constant, e.value, f"{e.tokens_per_second:,.0f}", f"{e.needed / GB:.1f}", e.fits) for e in ends]
    return Table(f"{candidate.layout} with one constant at an end of its range",
                 ("constant", "value", "tokens/s a card", "GB a card", "fits"), rows)  # fmt: skip


def refused_table(refused: tuple[Refused, ...]) -> Table:
    """Illegal layouts by rule."""
    return Table("Illegal layouts, each under the first rule that it breaks", ("rule", "layouts", "reason", "such as"),
                 [(r.rule, r.count, r.reason, r.example) for r in refused])  # fmt: skip


def constants_table(job: Job) -> Table:
    """What was assumed of the device."""
    rows = [(name, c.value, f"{c.low:.4g} to {c.high:.4g}", c.unit, c.source)
            for name, c in job.hardware.constants.items()]  # fmt: skip
    return Table(f"Constants of a {job.hardware.device}; --set name=value takes another",
                 ("constant", "value", "range", "unit", "source"), rows)  # fmt: skip


def _gb(count: float) -> str:
    return f"{count / GB:.1f} GB"
