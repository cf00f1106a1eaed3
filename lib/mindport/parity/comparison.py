"""What two traces say about each other: the verdict, its evidence, and the lines it adds to the report card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mindport.parity.limits import FLOAT32, Limits
from mindport.parity.rows import Divergence, GradientRow, Logits, Row
from mindport.results import Property, Result, verdict
from mindport.tables import Table

PART_FIELDS = ("scale", "error", "relative", "limit", "ratio")
LAYER = 2  # parts of a layer's own path: blocks.7


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """Ours against the reference.

    Attributes:
        rows: every value, in the order of execution.
        gradients: of one layer.
        logits: of the whole model.
        first_divergence: None when there is none.
        greedy_equal: the continuations are the same tokens.
        greedy_tokens: how many each row has.
        greedy_variety: how many different tokens the most varied continuation has; 1 proves little.
        loss, loss_reference: mean cross entropy of the next token at step 0, in nats.
        loss_limit: how far apart they may be.
        loss_of_nothing: ln V, what a model that has learnt nothing has.
        device: MindSpore's, as ours was run: "CPU" or "Ascend".
        limits: what was allowed.
    """

    rows: tuple[Row, ...]
    gradients: tuple[GradientRow, ...]
    logits: Logits
    first_divergence: Divergence | None
    greedy_equal: bool
    greedy_tokens: int
    greedy_variety: int
    loss: float
    loss_reference: float
    loss_limit: float
    loss_of_nothing: float
    device: str
    limits: Limits = FLOAT32

    @property
    def layers_ok(self) -> bool:
        return self.first_divergence is None

    @property
    def gradients_ok(self) -> bool:
        return all(row.ok for row in self.gradients)

    @property
    def loss_ok(self) -> bool:
        return abs(self.loss - self.loss_reference) <= self.loss_limit

    @property
    def ok(self) -> bool:
        return self.layers_ok and self.logits.ok and self.gradients_ok and self.greedy_equal and self.loss_ok

    @property
    def nearest(self) -> tuple[str, float, float]:
        """The value nearest to its limit, alone or in the whole model: which it is, its error, the limit."""
        alone = [(row.path, row.relative, row.limit) for row in self.rows]
        whole = [(f"{row.path} in the whole model", row.whole, row.whole_limit) for row in self.rows if row.whole_limit]
        return max([*alone, *whole], key=lambda value: value[1] / value[2] if value[2] else float("inf"))

    def headline(self) -> str:
        if self.first_divergence is not None:
            return f"the first wrong module is {self.first_divergence}"
        if not self.ok:
            return "every module is right, but " + ", ".join(self._missed())
        return (
            f"{len(self.layers())} layers agree with the reference: each within "
            f"{max(row.relative for row in self.layers()):.1e}, "
            f"logits within {max(self.logits.pynative, self.logits.graph):.1e}, "
            f"{self.greedy_tokens} greedy tokens equal"
        )

    def layers(self) -> list[Row]:
        """The rows of whole layers."""
        return [row for row in self.rows if row.path.startswith("blocks.") and len(row.path.split(".")) == LAYER]

    def layer(self, index: int) -> list[Row]:
        """The rows of one layer: its parts, then itself."""
        return [row for row in self.rows if row.path.split(".")[:2] == ["blocks", str(index)]]

    def tables(self) -> tuple[Table, ...]:
        return (self.verdicts(), self.per_layer(), self.parts(), self.logits_table(), self.per_gradient())

    def verdicts(self) -> Table:
        """Each promise with its figure and limit."""
        rows = [
            ("pass" if line.state == "verified" else "failed", line.name, line.figure) for line in self.properties()
        ]
        return Table("verdict", ("state", "what", "figure"), rows)

    def per_layer(self) -> Table:
        """The worst part of each layer alone, and the residual stream after it."""
        ends = [row for row in self.rows if row.whole_limit is not None]
        rows = [
            (end.path, end.foreign, worst.path, worst.relative, worst.limit, end.whole, end.whole_limit, _state(group))
            for end in ends
            for group in [self._group(end)]
            for worst in [max(group, key=lambda row: row.relative)]
        ]
        columns = (
            "layer",
            "reference",
            "worst part, alone",
            "error",
            "limit",
            "error in the whole model",
            "limit",
            "state",
        )
        return Table("each layer: errors relative to the largest value at the position", columns, rows)

    def parts(self) -> Table:
        """The parts of the layer that diverges first, or of the first layer."""
        return part_table(self.layer(self._shown()), "each part on the reference's own input")

    def logits_table(self) -> Table:
        """The end of the whole model in both modes, from the exact value."""
        logits = self.logits
        modes = (("PyNative", logits.pynative), ("Graph", logits.graph), ("torch itself", logits.own))
        rows = [(name, value, logits.limit, "pass" if value <= logits.limit else "failed") for name, value in modes]
        columns = ("logits", "max abs error from float64", "limit", "state")
        return Table(f"logits up to {logits.scale:.0f}, within {logits.from_torch:.1e} of torch", columns, rows)

    def per_gradient(self) -> Table:
        """The gradients of one layer in both modes."""
        rows = [
            (
                row.parameter,
                row.shape,
                row.scale,
                row.pynative,
                row.graph,
                row.own,
                row.limit,
                "pass" if row.ok else "failed",
            )
            for row in self.gradients
        ]
        columns = ("gradient of", "shape", "scale", "PyNative", "Graph", "torch's own", "limit", "state")
        return Table("gradients of one layer: errors relative to the scale", columns, rows)

    def properties(self) -> tuple[Property, ...]:
        return tuple(replace(line, backend=self.device) for line in (self._embedded(), *self._lines()))

    def _lines(self) -> tuple[Property, ...]:
        logits, limits = self.logits, self.limits
        which, nearest, limit = self.nearest
        gradient = max(self.gradients, key=lambda row: max(row.pynative, row.graph) / row.limit)
        tokens = f"{self.greedy_tokens} tokens after each prompt"
        little = "; all one token: proves little" if self.greedy_variety == 1 else ""
        layer = max(row.relative for row in self.layers())
        return (
            verdict(
                "every module agrees with transformers on the same input",
                self.layers_ok,
                "each cell fed the reference's own input, float32, and the residual stream of the whole model",
                str(self.first_divergence) if self.first_divergence else
                f"layers {layer:.1e}, nearest to its limit {which} {nearest:.1e} (limit {limits.cell:.0e} "
                f"or {limits.own:g} times the reference's own error: {limit:.1e})",
            ),
            *(
                verdict(f"logits agree in {mode} mode", value <= logits.limit, "the whole model, against it in float64",
                        f"{value:.1e}, torch {logits.own:.1e}, values to {logits.scale:.0f} "
                        f"(limit {limits.logits:.0e} or {limits.own_logits:g} times torch's: {logits.limit:.1e})")
                for mode, value in (("PyNative", logits.pynative), ("Graph", logits.graph))
            ),
            verdict("gradients of a layer agree", self.gradients_ok, "input and every parameter, PyNative and Graph",
                    f"{max(gradient.pynative, gradient.graph):.1e} at {gradient.parameter} "
                    f"(limit {gradient.limit:.1e})"),
            verdict("greedy continuation equals transformers'", self.greedy_equal, "beside generate() of the reference",
                    f"{tokens}: {'equal' if self.greedy_equal else 'different'}{little}"),
            verdict("loss at step 0 agrees", self.loss_ok, "mean cross entropy of the next token",
                    f"{self.loss:.4f}, reference {self.loss_reference:.4f}, untrained ln V {self.loss_of_nothing:.4f} "
                    f"(limit {self.loss_limit:.0e})"),
        )  # fmt: skip

    def _embedded(self) -> Property:
        """The lowest rung: the ids are one array for both, and a look-up rounds nothing."""
        rows = [row for row in self.rows if row.path in ("embed", "position")]
        worst = max(rows, key=lambda row: row.relative)
        right, figure = all(row.state == "pass" for row in rows), f"{worst.relative:.1e} at {worst.path}"
        return verdict("embeddings agree", right, "the same ids, looked up", f"{figure} (limit {worst.limit:.0e})")

    def _missed(self) -> Iterable[str]:
        return (f"{line.name}: no ({line.figure})" for line in self.properties() if line.state == "failed")

    def _group(self, end: Row) -> list[Row]:
        return [row for row in self.rows if row.path == end.path or row.path.startswith(f"{end.path}.")]

    def _shown(self) -> int:
        parts = self.first_divergence.path.split(".") if self.first_divergence else ()
        return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0


def part_table(rows: Sequence[Row], title: str) -> Table:
    """One line for each value: alone, against torch and against float64; the name of their layer is left out."""
    columns = ("ours", "reference", "scale", "max abs", "relative", "limit", "÷ torch's own", "cosine", "state")
    whole = rows[-1] if len(rows) > 1 and all(row.path.startswith(f"{rows[-1].path}.") for row in rows[:-1]) else None
    cells = [
        (*_short(row, whole), *(getattr(row, name) for name in PART_FIELDS), f"{row.cosine:.9f}", row.state)
        for row in rows
    ]
    return Table(f"{title}: {whole.path} ↔ {whole.foreign}" if whole else title, columns, cells)


def _short(row: Row, whole: Row | None) -> tuple[str, str]:
    """The names of a part within the whole: `…attn.q`, `…self_attn.q_proj`."""
    if whole is None or row is whole:
        return row.path, row.foreign
    return row.path.replace(f"{whole.path}.", "…"), row.foreign.replace(f"{whole.foreign}.", "…")


def _state(rows: Iterable[Row]) -> str:
    states = {row.state for row in rows}
    return "failed" if "failed" in states else "inherited" if "inherited" in states else "pass"
