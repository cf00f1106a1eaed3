"""The one description of a GPT that every room understands.

Names are Hugging Face's own (`hidden_size`, `num_key_value_heads`, …), because config.json is the source of truth.
What differs between families is a field here, never a test on the model's name.

    query heads   q0 q1 q2 q3 q4 q5        num_attention_heads = 6
                   \\ |  /    \\ |  /
    key/value        k0         k1          num_key_value_heads = 2: three query heads share one (GQA)
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from mindport.errors import ConfigError

Activation = Literal["gelu", "gelu_tanh", "silu", "relu"]
RopeType = Literal["default", "linear", "dynamic", "yarn", "llama3", "longrope"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rope:
    """Rotary position embedding: base, and how it is stretched beyond the original context.

    Attributes:
        rope_theta: the base of the wavelengths (10,000 in the paper).
        rope_type: how the frequencies are scaled; the other fields belong to one type or several.
        factor: stretch of the context (all but default).
        original_max_position_embeddings: context before stretching, in tokens (yarn, llama3, longrope).
        low_freq_factor, high_freq_factor: llama3's band between untouched and divided frequencies.
        attention_factor: multiplier of cos and sin (yarn, longrope; derived from `factor` when absent).
        short_factor, long_factor: longrope's divisor of each pair's frequency, within and beyond the original context.
        beta_fast, beta_slow, mscale, mscale_all_dim, truncate: yarn's ramp and attention factor.
    """

    rope_theta: float
    rope_type: RopeType = "default"
    factor: float | None = None
    original_max_position_embeddings: int | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    attention_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    short_factor: tuple[float, ...] | None = None
    long_factor: tuple[float, ...] | None = None

    @property
    def by_length(self) -> bool:
        """Whether the frequencies depend on how many tokens there are."""
        return self.rope_type in ("dynamic", "longrope")

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        shown = (f"{name} {value:g}" for name, value in values if type(value) in (int, float))
        return f"{self.rope_type}: " + ", ".join(shown)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """A decoder-only transformer with pre-normalisation.

    Attributes:
        model_type: the dialect (Hugging Face's `model_type`) that the checkpoint came in.
        vocab_size, hidden_size, num_hidden_layers, num_attention_heads: as in config.json.
        padded_vocab: rows of the embedding and of the head where the last ones are padding, which the user declares;
            token ids stay below `vocab_size`. None when there is none.
        num_key_value_heads: heads of k and v; divides `num_attention_heads` (equal: MHA, one: MQA).
        head_dim: width of one head; need not be hidden_size / num_attention_heads.
        intermediate_size: width of the MLP.
        max_position_embeddings: context length in tokens.
        hidden_act: the MLP's activation; `gelu` is the erf form, `gelu_tanh` the tanh approximation.
        gated_mlp: True for down(act(gate(x)) · up(x)), False for down(act(up(x))).
        norm, norm_eps: layer norm or RMS norm, and its epsilon.
        norm_offset: 1 when a norm multiplies by 1 + weight, so that its weight is stored around zero (Gemma).
        qk_norm: q and k of each head are normalised, over head_dim, before they are rotated (Qwen3).
        position, rope: a learned table, or rotary embedding.
        rotary_dim: how many dimensions of a head are rotated, the first ones; None rotates all (GPT-NeoX, Phi).
        window: how many keys a query of each layer sees, itself included: one entry a layer, None in it for all
            keys before the query; None alone when no layer has a window (Mistral, Qwen2).
        parallel_residual: x + attn(norm1(x)) + mlp(norm2(x)), not one after the other (GPT-NeoX).
        embedding_scale: multiplies the embedding's rows on the way in, not the head's (Gemma).
        qkv_bias, attention_out_bias, mlp_bias: which linear maps have a bias.
        tie_word_embeddings: the head is the embedding matrix.
        scale_attn_weights: scores are divided by sqrt(head_dim).
        scale_attn_by_inverse_layer_idx: scores are divided by layer index + 1 as well (GPT-2 variants).
        upcast_attention: scores are computed in float32 from q and k of a lower precision (GPT-2 variants).
        embd_pdrop, attn_pdrop, resid_pdrop: dropout in training, as probabilities of dropping.
        initializer_range: standard deviation of fresh weights.
        bos_token_id, eos_token_id, pad_token_id: as in config.json.
        dtype: the dtype that config.json names, None when it names none.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    max_position_embeddings: int
    hidden_act: Activation
    gated_mlp: bool
    norm: Literal["layer", "rms"]
    norm_eps: float
    norm_offset: Literal[0, 1] = 0
    qk_norm: bool = False
    position: Literal["learned", "rope"]
    rope: Rope | None = None
    rotary_dim: int | None = None
    window: tuple[int | None, ...] | None = None
    parallel_residual: bool = False
    embedding_scale: float = 1.0
    qkv_bias: bool
    attention_out_bias: bool
    mlp_bias: bool
    tie_word_embeddings: bool
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    upcast_attention: bool = False
    embd_pdrop: float = 0.0
    attn_pdrop: float = 0.0
    resid_pdrop: float = 0.0
    initializer_range: float = 0.02
    bos_token_id: int | None = None
    eos_token_id: int | tuple[int, ...] | None = None
    pad_token_id: int | None = None
    dtype: str | None = None
    padded_vocab: int | None = None

    def __post_init__(self) -> None:
        if (self.position == "rope") != (self.rope is not None):
            raise ConfigError("rope parameters go with rotary positions", got=f"{self.position=}, {self.rope=}")
        if self.window is not None and len(self.window) != self.num_hidden_layers:
            raise ConfigError("each layer has its window", got=f"{len(self.window)} windows",
                              expected=f"{self.num_hidden_layers}, one a layer")  # fmt: skip

    def with_layers(self, layers: int) -> ModelConfig:
        """The same model with its first `layers` layers; further ones are like the last."""
        window = self.window and tuple(self.window[min(i, len(self.window) - 1)] for i in range(layers))
        return replace(self, num_hidden_layers=layers, window=window)

    @property
    def vocab_rows(self) -> int:
        """Rows of the embedding and of the head, padding included: how many logits there are."""
        return self.vocab_size if self.padded_vocab is None else self.padded_vocab

    @property
    def rotated(self) -> int:
        """How many dimensions of a head are rotated."""
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def dims(self) -> dict[str, int]:
        """The sizes behind the letters of the schema's shapes."""
        return {
            "v": self.vocab_rows,
            "d": self.hidden_size,
            "t": self.max_position_embeddings,
            "f": self.intermediate_size,
            "h": self.head_dim,
            "q": self.num_attention_heads * self.head_dim,
            "k": self.num_key_value_heads * self.head_dim,
        }
