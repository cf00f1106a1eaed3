"""Performance tables from articles, held to their own numbers.

A claim is a paraphrase with its figure; beside it stands a figure that follows from the same article's other numbers
(or from a formula that anybody can check). Nothing is run: a table that contradicts itself needs no benchmark.
The ids are those of the project's ledger of claims (C…) and of its list of features (F…).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mindport.results import Property, Result
from mindport.tables import Table

TOLERANCE = 0.05  # figures in articles are rounded
GIGA = 1e9
ADAM_BYTES = 16  # a parameter in float32: weight, gradient, two moments
STEP_MS = {"baseline": 1243, "operators": 786, "layout": 592, "gradients": 471, "device": 389}  # F145, one table
TOKENS_PER_SECOND = {"baseline": 10240, "operators": 16380, "layout": 21520, "gradients": 27140, "device": 32760}


@dataclass(frozen=True)
class Claim:
    """One figure of an article, and what its own numbers give.

    Attributes:
        id: in the ledger.
        says: the claim, paraphrased.
        claimed: its figure.
        recomputed: the figure that follows.
        unit: of both.
        how: the formula, in words or signs.
        bound: "=" for a figure that must be met, "≤" when the claimed one may not be larger than the recomputed one,
            "≥" when it may not be smaller.
    """

    id: str
    says: str
    claimed: float
    recomputed: float
    unit: str
    how: str
    bound: str = "="

    @property
    def holds(self) -> bool:
        """Whether the claim agrees with what was recomputed."""
        near = abs(self.claimed - self.recomputed) <= TOLERANCE * abs(self.recomputed)
        beyond = self.claimed < self.recomputed if self.bound == "≤" else self.claimed > self.recomputed
        return near or (self.bound != "=" and beyond)

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "contradicted"


@dataclass(frozen=True)
class ArithmeticReport(Result):
    """The claims with their verdicts."""

    claims: tuple[Claim, ...]

    @property
    def ok(self) -> bool:
        """The arithmetic was done; a claim that is contradicted is its author's fault, not ours."""
        return bool(self.claims)

    def headline(self) -> str:
        held = sum(claim.holds for claim in self.claims)
        return f"{held} of {len(self.claims)} performance claims agree with their own numbers"

    def tables(self) -> tuple[Table, ...]:
        rows = [
            (c.id, c.says, _figure(c.claimed, c.unit), _figure(c.recomputed, c.unit), c.how, c.verdict)
            for c in self.claims
        ]  # fmt: skip
        return (Table("claims recomputed", ("id", "claim", "claimed", "recomputed", "from", "verdict"), rows),)

    def properties(self) -> tuple[Property, ...]:
        how = "each figure recomputed from the other numbers of the same article, or from a formula that is given"
        return (Property("performance tables of articles are held to their own numbers", "verified", how,
                         self.headline()),)  # fmt: skip


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def layer_growth(hidden: int, tokens: int, ratio: float = 4.0) -> float:
    """By which factor a layer's FLOPs grow when `tokens` doubles.

    A token costs 2 FLOPs for each weight, 4 d² + 2·ratio d² of them, and 4 d for each token that it is scored against.

    Args:
        hidden: d.
        tokens: T, before it is doubled.
        ratio: width of the MLP over d.
    """
    linear, pair = (8 + 4 * ratio) * hidden**2, 4 * hidden
    return 2 * (linear + 2 * tokens * pair) / (linear + tokens * pair)


def quadratic_share(hidden: int, tokens: int, ratio: float = 4.0) -> float:
    """The share of a layer's FLOPs that grows with the square of `tokens`: scores and context."""
    linear, pair = (8 + 4 * ratio) * hidden**2, 4 * hidden * tokens
    return pair / (linear + pair)


def time_ratio(before: float, after: float) -> float:
    """How much longer a part takes when its share goes from `before` to `after` and the rest stays as it was."""
    return (after / (1 - after)) / (before / (1 - before))


def bubble(stages: int, micro_batches: int) -> float:
    """The idle share of a pipeline: (p − 1) / (m + p − 1)."""
    return (stages - 1) / (micro_batches + stages - 1)


def check_claims() -> ArithmeticReport:
    """Recompute every claim of the ledger that is about speed or memory and gives its numbers."""
    groups: tuple[Callable[[], list[Claim]], ...] = (_speed, _ladder, _memory, _machine)
    return ArithmeticReport(tuple(claim for group in groups for claim in group()))


def _speed() -> list[Claim]:
    return [
        Claim("C083", "doubling the sequence costs a layer four times the work", 4.0, layer_growth(768, 1024), "×",
              "2 (24d² + 2T·4d) / (24d² + T·4d), d 768, T 1024"),
        Claim("C050", "attention takes 68 % of a layer", 68, 100 * quadratic_share(2048, 1024), "% of FLOPs",
              "4dT / (24d² + 4dT), d 2048, T 1024: what grows with T² (its time must be profiled)"),
        Claim("C064", "fast GELU is faster: its share of the time goes from 12 % to 28 %", 1.0, time_ratio(0.12, 0.28),
              "× its time", "(0.28 / 0.72) / (0.12 / 0.88): a larger share is a slower part", "≥"),
        Claim("C176", "4 stages with 8 micro-batches leave 27 % idle", 27, 100 * bubble(4, 8), "%",
              "(p − 1) / (m + p − 1)"),
    ]  # fmt: skip


def _ladder() -> list[Claim]:
    """The five-rung table: milliseconds a step, and tokens a second, must multiply to the tokens of a step."""
    first, last = (TOKENS_PER_SECOND[rung] * STEP_MS[rung] / 1e3 for rung in ("baseline", "device"))
    return [
        Claim("F145", "the five rungs are five speeds of one step", last, first, "tokens",
              "tokens/s · s, last rung beside first"),
        Claim("F145", "a step is 16 sequences of 1,024 tokens", 16 * 1024, last, "tokens", "32,760 tokens/s · 0.389 s"),
        Claim("F145", "throughput rises ×3.2 over the five rungs", 32760 / 10240, STEP_MS["baseline"] /
              STEP_MS["device"], "×", "1,243 ms / 389 ms"),
    ]  # fmt: skip


def _memory() -> list[Claim]:
    recomputed_time = 100 * (6.8 / 5.1 - 1)
    return [
        Claim("C139", "recompute saves about 40 % of the memory", 40, 100 * (1 - 38 / 52), "%",
              "1 − 38/52 GB, the article's second table"),
        Claim("C139", "… for 15 % of the time", 15, recomputed_time, "%", "6.8/5.1 ms − 1, the article's first table"),
        Claim("C193", "layout brings 1.3 B parameters from 28.7 to 19.3 GB", 19.3, ADAM_BYTES * 1.3, "GB",
              "16 B a parameter for AdamW in float32, before any activation", "≥"),
        Claim("C175", "data parallelism fits 13 B parameters on a 64 GB card", 64, ADAM_BYTES * 13, "GB",
              "16 B a parameter, on every card", "≥"),
    ]  # fmt: skip


def _machine() -> list[Claim]:
    return [
        Claim("C180", "the link is 12 × PCIe 4: 1.2 TB/s", 1200, 12 * 63, "GB/s", "PCIe 4 x16, both ways: 63 GB/s"),
        Claim("C198", "1.8 TB/s of memory bandwidth reached", 1800, 1600, "GB/s",
              "half of 3,200 GB/s, which two such dies have", "≤"),
        Claim("C126", "8 a card, accumulated 16 times, on 8 cards: a global batch of 128", 128, 8 * 16 * 8, "sequences",
              "batch · accumulation · cards"),
    ]  # fmt: skip
