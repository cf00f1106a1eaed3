"""Published rows as jobs that the planner can predict; the data is `published.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config import ModelConfig
from mindport.config.model_config import Rope
from mindport.mindformers.layout import Layout, parse_layout
from mindport.parallel.plan.constants import hardware, read
from mindport.parallel.plan.grid import as_grid
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.planner import describe
from mindport.parallel.plan.result import Candidate

FILE = Path(__file__).with_name("published.yaml")
CONTEXT = 2**20


@dataclass(frozen=True)
class Row:
    """One published throughput.

    Attributes:
        model, server: as the card names them.
        device: the chip that is taken to be in the server.
        layout: what its configuration says.
        again: layers of each stage that are recomputed; None: as the layout says.
        batch, seq, dtype, fused, master: of the job.
        memory: GiB that the configuration lets MindSpore take.
        tokens: tokens a second of one card.
        source: file and configuration.
    """

    model: str
    server: str
    device: str
    layout: Layout
    again: tuple[int, ...] | None
    batch: int
    seq: int
    dtype: str
    fused: bool
    master: float
    memory: float
    tokens: float
    source: str

    @property
    def name(self) -> str:
        return f"{self.model}, {self.seq // 1024}k, {self.layout.devices} cards, {self.server}"

    def job(self, settings: dict[str, float]) -> Job:
        """The job that was run, on hardware with these settings."""
        known = {"memory": self.memory, "master": self.master}
        return Job(published_model(self.model), hardware(self.device).with_values({**known, **settings}),
                   self.layout.devices, self.seq, self.batch * self.layout.dp * self.layout.micro_batches,
                   self.dtype, fused=self.fused)  # type: ignore[arg-type]  # fmt: skip

    def predict(self, layout: Layout | None = None, **settings: float) -> Candidate:
        """What the planner says of it, or of another layout for the same job."""
        job = self.job(settings)
        again = self.again if layout is None else None
        return describe(job, as_grid(job, layout or self.layout), again)


def rows(kind: str) -> tuple[Row, ...]:
    """`rows`, `unlaid` or `further` of the file."""
    return tuple(_row(dict(values)) for values in read(FILE)[kind])


@cache
def published_model(name: str) -> ModelConfig:
    """A published model's shape; what the planner does not look at has any value."""
    return shaped(**read(FILE)["models"][name])


def shaped(d: int, L: int, a: int, kv: int, f: int, v: int, gpt: bool = False, tied: bool = False) -> ModelConfig:
    """A LLaMA, or a GPT-2, of a size; the letters are the schema's."""
    kind: dict[str, Any] = {"model_type": "llama", "hidden_act": "silu", "gated_mlp": True, "norm": "rms",
                            "position": "rope", "rope": Rope(rope_theta=1e4), "qkv_bias": False,
                            "attention_out_bias": False, "mlp_bias": False, "tie_word_embeddings": tied}  # fmt: skip
    if gpt:
        kind |= {"model_type": "gpt2", "hidden_act": "gelu_tanh", "gated_mlp": False, "norm": "layer",
                 "position": "learned", "rope": None, "qkv_bias": True, "attention_out_bias": True, "mlp_bias": True,
                 "tie_word_embeddings": True, "attn_pdrop": 0.1, "resid_pdrop": 0.1}  # fmt: skip
    return ModelConfig(
        vocab_size=v, hidden_size=d, num_hidden_layers=L, num_attention_heads=a, num_key_value_heads=kv,
        head_dim=d // a, intermediate_size=f, max_position_embeddings=2048 if gpt else CONTEXT, norm_eps=1e-5, **kind,
    )  # fmt: skip


def log_error(row: Row, **settings: float) -> float:
    """ln(predicted / published)."""
    return float(np.log(row.predict(**settings).tokens_per_second / row.tokens))


def _row(values: dict[str, Any]) -> Row:
    again = values.pop("again", None)
    rest = {"dtype": "bfloat16", "fused": True, "device": read()["servers"][values["server"]], **values,
            "layout": parse_layout(values["layout"])}  # fmt: skip
    return Row(again=None if again is None else tuple(again), **rest)
