"""A target: a dialect that is written for another program, not read from Hugging Face; its config table is empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mindport.config.dialect import Dialect, Row
from mindport.config.model_config import ModelConfig
from mindport.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Need:
    """What the target's network is, in words, and whether a model fits it."""

    what: str
    met: Callable[[ModelConfig], bool]


COMMON = (  # what every network here computes, and no other way
    Need("scores divided by sqrt(head_dim)", lambda c: c.scale_attn_weights and not c.scale_attn_by_inverse_layer_idx),
    Need("norms that multiply by their weight", lambda c: c.norm_offset == 0),
    Need("attention without a window", lambda c: c.window is None),
    Need("the MLP after the attention", lambda c: not c.parallel_residual),
    Need("an embedding that is not scaled", lambda c: c.embedding_scale == 1.0),
)
BARE_QK = Need("q and k without norms", lambda c: not c.qk_norm)
LLAMA_LIKE = (
    *COMMON,
    Need("heads that are rotated whole", lambda c: c.rotated == c.head_dim),
    Need("RMS norm", lambda c: c.norm == "rms"),
    Need("a gated MLP with SiLU and no bias", lambda c: c.gated_mlp and c.hidden_act == "silu" and not c.mlp_bias),
)


@dataclass(frozen=True, slots=True)
class Target:
    """One way to store the hub's parameters for another program.

    Attributes:
        name: as in `mindport convert --to NAME`.
        dialect: the weight table, with an empty config table.
        network: whose parameters the names are: a class, and the releases that have it.
        needs: what the network demands of a model.
        config_json: turns a Hugging Face config.json into the one that the program reads; None when it reads none.
    """

    name: str
    dialect: Dialect
    network: str = ""
    needs: tuple[Need, ...] = ()
    config_json: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def unmet(self, config: ModelConfig) -> list[str]:
        """The demands that a model does not meet, in words; none when the network can hold it."""
        return [need.what for need in self.needs if not need.met(config)]

    def check(self, config: ModelConfig, where: object = None) -> None:
        """Stop a model that the network cannot hold.

        Raises:
            ConfigError: names every demand that is not met.
        """
        if broken := self.unmet(config):
            raise ConfigError(
                f"{self.name} cannot hold this model", where=where, got=f"{config.model_type}: not true that it has "
                + "; ".join(broken), expected=f"what {self.network} computes", do="choose another target",
            )  # fmt: skip


def names_only(name: str, rows: tuple[Row, ...]) -> Dialect:
    """A dialect with a weight table and nothing else."""
    return Dialect(
        model_type=name, architecture="", config_class="", fields=(), constants={}, refused=(), harmless={}, rows=rows,
        modules=(),
    )  # fmt: skip
