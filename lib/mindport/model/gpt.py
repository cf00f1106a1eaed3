"""One GPT for every configuration: read it from top to bottom.

    Linear · Embedding · LayerNorm · RMSNorm      the pieces that hold parameters
    Wide                                          what is computed in float32 where the rest is in half
    Rotary                                        positions → cos, sin
    Attention · MLP · Block                       one layer, pre-normalised: x + attn(norm(x)), x + mlp(norm(x))
                                                  (or side by side: x + attn(norm(x)) + mlp(norm(x)))
    GPT                                           ids → logits

Shapes in comments: B batch, T tokens, S keys, V vocab_rows, d hidden_size, f intermediate_size, H query heads,
K key/value heads, D head_dim, R its rotated part. Cells and parameters are named as in `mindport.config.schema`.

Decoding with a cache needs no other cells: `GPT.inputs`, `Attention.heads` (q, k, v with positions applied),
`Attention.attend` (takes keys longer than the queries, with an offset), `Attention.merge` and `GPT.outputs` are the
joints; `construct` is what they come to for a whole sequence.

Under tensor parallelism the same cells hold this rank's share of the heads, of f and of V, and H, K, f and V in the
comments are that share; `collectives` has what goes between ranks. One process has none of it.

A cell's `precision` says what it computes in, a row for each thing: (what, computed in, handed on in, why).
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor, nn, ops

from mindport.config.model_config import ModelConfig
from mindport.config.split import axes
from mindport.errors import UsageError
from mindport.model import kernels
from mindport.model.collectives import Gathered, OwnRows, Shared, SharedWeights, Summed
from mindport.model.dropout import Dropout
from mindport.model.parameters import DTYPES, Parameters, Source, fresh
from mindport.model.precision import Precision
from mindport.model.rope import inverse_frequencies
from mindport.ranks import ALONE, Ranks


class Linear(nn.Cell):
    """x Wᵀ + b, with W (out, in). Where ranks share the columns of W, and of x, the sum is taken before b is added."""

    def __init__(self, params: Parameters, tied: bool = False) -> None:
        super().__init__()
        self.has_bias, self.sums = "bias" in params, params.axis("weight") == 1
        if not tied:  # else the weight is given afterwards
            self.weight = params("weight")  # (out, in)
        if self.has_bias:
            self.bias = params("bias")  # (out,)
        if self.sums:
            self.sum = Summed(params.ranks.tp_group)
        self.adds = self.has_bias and not self.sums  # in the kernel
        self.linear = kernels.linear(bias=self.adds, dtype=params.products)
        self.rounds = params.products != params.dtype
        self.narrow, self.stream = DTYPES[params.products], DTYPES[params.stream]
        self.precision = (("linear maps", params.products, params.stream, "nearly all of the time, and of the gain"),)

    def construct(self, x: Tensor) -> Tensor:
        if self.sums:
            return self.summed(x)
        if self.rounds:
            return self.rounded(x)
        return self.linear(x, self.weight, self.bias) if self.adds else self.linear(x, self.weight)

    def rounded(self, x: Tensor) -> Tensor:
        """The product in half; the gradients of weight and bias come back in float32."""
        x, weight = x.astype(self.narrow), self.weight.astype(self.narrow)
        y = self.linear(x, weight, self.bias.astype(self.narrow)) if self.adds else self.linear(x, weight)
        return y.astype(self.stream)

    def summed(self, x: Tensor) -> Tensor:
        """The product over all ranks' columns; what it is rounded to is what is summed."""
        y = self.sum(self.rounded(x) if self.rounds else self.linear(x, self.weight))
        return y + self.bias.astype(y.dtype) if self.has_bias else y


class Embedding(nn.Cell):
    """Rows of a table, times a factor. A negative index counts from the end, silently; one beyond is an error."""

    def __init__(self, params: Parameters, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = params("weight")  # (rows, d)
        self.gather, self.scaled = ops.Gather(), scale != 1.0
        self.shares = params.axis("weight") == 0
        if self.shares:
            self.own = OwnRows(params.ranks, self.weight.shape[0])
        self.scale = Tensor(scale, self.weight.dtype)  # rounded to the weights' precision, as the reference does
        self.mixed, self.stream = params.mixed, DTYPES[params.stream]
        self.precision = (("embeddings", params.dtype, params.stream, "rows are copied, which costs nothing"),)

    def construct(self, index: Tensor) -> Tensor:
        x = self.own(self.weight, index) if self.shares else self.gather(self.weight, index, 0)  # (…) → (…, d)
        x = x * self.scale if self.scaled else x
        return x.astype(self.stream) if self.mixed else x


class Wide(nn.Cell):
    """A kernel in float32 amid a stream in half."""

    def __init__(self, kernel: nn.Cell, stream: str) -> None:
        super().__init__()
        self.kernel, self.float32, self.stream = kernel, ms.float32, DTYPES[stream]

    def construct(self, *inputs: Tensor) -> Tensor:
        return self.kernel(*[each.astype(self.float32) for each in inputs]).astype(self.stream)


def wide(kernel: nn.Cell, params: Parameters) -> nn.Cell:
    """The kernel as it is where the stream is in the parameters' precision."""
    return Wide(kernel, params.stream) if params.mixed else kernel


NORMED = "the square of 256 is more than float16 holds"


class LayerNorm(nn.Cell):
    """Layer norm with weight and bias."""

    def __init__(self, config: ModelConfig, params: Parameters) -> None:
        super().__init__()
        self.weight, self.bias = params("weight"), params("bias")  # (d,), (d,)
        self.norm = wide(kernels.layer_norm(eps=config.norm_eps, dtype=params.dtype), params)
        self.precision = (("norms", params.dtype, params.stream, NORMED),)

    def construct(self, x: Tensor) -> Tensor:
        return self.norm(x, self.weight, self.bias)


class RMSNorm(nn.Cell):
    """Root-mean-square norm with a weight."""

    def __init__(self, config: ModelConfig, params: Parameters) -> None:
        super().__init__()
        self.weight = params("weight")  # (d,)
        norm = kernels.rms_norm(eps=config.norm_eps, offset=config.norm_offset, dtype=params.dtype)
        self.norm = wide(norm, params)
        self.precision = (("norms", "float32", params.stream, NORMED),)

    def construct(self, x: Tensor) -> Tensor:
        return self.norm(x, self.weight)


NORMS = {"layer": LayerNorm, "rms": RMSNorm}


class Rotary(nn.Cell):
    """cos and sin of position · inverse frequency, in float32 as the reference computes them; no table is kept."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        rope, rotated = config.rope, config.rotated
        inv_freq, self.scaling = inverse_frequencies(rope, rotated, 0)
        self.inv_freq = Tensor(inv_freq)  # (R/2,)
        self.by_length = rope.by_length
        self.at_length = ops.constexpr(lambda length: Tensor(inverse_frequencies(rope, rotated, length)[0]))
        self.cos, self.sin, self.float32 = ops.Cos(), ops.Sin(), ms.float32
        self.precision = (("angles", "float32", "float32", "float16 has no odd position beyond 2048"),)

    def construct(self, positions: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Positions (B or 1, T) in a sequence of `length` tokens → twice (B or 1, T, R/2)."""
        inv_freq = self.at_length(length) if self.by_length else self.inv_freq
        angles = positions.astype(self.float32).expand_dims(-1) * inv_freq
        return self.cos(angles) * self.scaling, self.sin(angles) * self.scaling


class Attention(nn.Cell):
    """Causal attention with grouped key/value heads."""

    def __init__(self, config: ModelConfig, layer: int, params: Parameters) -> None:
        super().__init__()
        self.shares = params.ranks.tp > 1
        if self.shares:
            self.shared = Shared(params.ranks.tp_group)
        self.q = Linear(params / "q")  # d → H·D
        self.k = Linear(params / "k")  # d → K·D
        self.v = Linear(params / "v")  # d → K·D
        self.o = Linear(params / "o")  # H·D → d
        self.head_dim = config.head_dim
        self.qk_norm = config.qk_norm
        if self.qk_norm:
            self.q_norm = of_heads(NORMS[config.norm](config, params / "q_norm"), params)  # over D
            self.k_norm = of_heads(NORMS[config.norm](config, params / "k_norm"), params)
        self.rotary = config.position == "rope"
        if self.rotary:
            rotate = kernels.rope(head_dim=config.head_dim, rotary_dim=config.rotary_dim, dtype=params.dtype)
            self.rotate = wide(rotate, params)
        self.attend = kernels.attention(
            heads=config.num_attention_heads // params.ranks.tp,
            kv_heads=config.num_key_value_heads // params.ranks.tp,
            head_dim=config.head_dim,
            scale=score_scale(config, layer),
            dropout=config.attn_pdrop,
            dtype=params.products,
            window=config.window[layer] if config.window else None,
            upcast=config.upcast_attention,
            place=params.counter.place(of_heads=True) if config.attn_pdrop > 0 and params.counter else None,
        )
        self.dropout = Dropout(config.resid_pdrop, params.counter)
        self.rounds, self.narrow = params.products != params.stream, DTYPES[params.products]
        self.precision = (
            ("scores and weighted sums", params.products, params.products, "products of matrices, as the linear maps"),
            ("softmax", "float32", params.products, "small weights add up to a large sum"),
            *((("rotation", params.dtype, params.stream, "two products cancel, digits are lost"),) * self.rotary),
        )

    def construct(self, x: Tensor, cos: Any = None, sin: Any = None) -> Tensor:
        q, k, v = self.heads(x, cos, sin)
        return self.dropout(self.o(self.merge(self.attend(q, k, v))))

    def heads(self, x: Tensor, cos: Any, sin: Any) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, d) → q (B, T, H, D), k and v (B, T, K, D), with norms and rotary positions applied to q and k."""
        x = self.shared(x) if self.shares else x
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if self.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary:
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        return (q.astype(self.narrow), k.astype(self.narrow), v.astype(self.narrow)) if self.rounds else (q, k, v)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, heads·D) → (B, T, heads, D)."""
        return x.reshape((x.shape[0], x.shape[1], -1, self.head_dim))

    def merge(self, x: Tensor) -> Tensor:
        """(B, T, heads, D) → (B, T, heads·D)."""
        return x.reshape((x.shape[0], x.shape[1], -1))


def of_heads(norm: nn.Cell, params: Parameters) -> nn.Cell:
    """A norm over D: its weights are whole on every rank, which sees the gradient of its own heads only."""
    if params.ranks.tp > 1:
        norm.norm = SharedWeights(norm.norm, params.ranks.tp_group)
    return norm


def score_scale(config: ModelConfig, layer: int) -> float:
    """What multiplies the attention scores of a layer, counted from 0."""
    scale = config.head_dim**-0.5 if config.scale_attn_weights else 1.0
    return scale / (layer + 1) if config.scale_attn_by_inverse_layer_idx else scale


class MLP(nn.Cell):
    """down(act(up(x))), or down(act(gate(x)) · up(x))."""

    def __init__(self, config: ModelConfig, params: Parameters) -> None:
        super().__init__()
        self.gated, self.shares = config.gated_mlp, params.ranks.tp > 1
        if self.shares:
            self.shared = Shared(params.ranks.tp_group)
        if self.gated:
            self.gate = Linear(params / "gate")  # d → f
        self.up = Linear(params / "up")  # d → f
        self.down = Linear(params / "down")  # f → d
        self.act = wide((kernels.gated if self.gated else kernels.activation)(config.hidden_act, params.dtype), params)
        self.dropout = Dropout(config.resid_pdrop, params.counter)
        self.precision = (("activations", params.dtype, params.stream, "a slope is inf · 0 where a square overflows"),)

    def construct(self, x: Tensor) -> Tensor:
        x = self.shared(x) if self.shares else x
        hidden = self.act(self.gate(x), self.up(x)) if self.gated else self.act(self.up(x))
        return self.dropout(self.down(hidden))


class Block(nn.Cell):
    """One layer: (B, T, d) → (B, T, d)."""

    def __init__(self, config: ModelConfig, layer: int, params: Parameters) -> None:
        super().__init__()
        self.norm1 = NORMS[config.norm](config, params / "norm1")
        self.attn = Attention(config, layer, params / "attn")
        self.norm2 = NORMS[config.norm](config, params / "norm2")
        self.mlp = MLP(config, params / "mlp")
        self.parallel = config.parallel_residual
        self.precision = (("residual sums", params.stream, params.stream, "two a layer, read by every later one"),)

    def construct(self, x: Tensor, cos: Any = None, sin: Any = None) -> Tensor:
        after = x + self.attn(self.norm1(x), cos, sin)
        return after + self.mlp(self.norm2(x if self.parallel else after))


class GPT(nn.Cell):
    """Token ids int32 (B, T) → logits float32 (B, T, V), in PyNative and Graph mode.

    Args:
        config: the model.
        source: the values of its parameters; random ones to train from when absent (`parameters.fresh`).
        dtype: of the parameters and, but for mixed precision, of the computation.
        precision: what is computed in half although the parameters are float32; None for nothing.
        seed: of the dropout's random numbers, the same on every rank.
        ranks: which part of it this process holds, and of each batch; ids, loss and logits are the same on all ranks
            that share the weights.

    Attributes:
        split: the parameters of which this process holds a part, and along which axis.
        counter: what a training calls before each forward pass, so that dropout drops others (`dropout.Counter`);
            None when the configuration drops nothing. It is no part of the forward pass, and none of the cells.

    Raises:
        MappingError: a shape of `source` is not the configuration's.
        ConfigError: heads or the MLP's width cannot be shared by so many ranks.
        UsageError: mixed precision of parameters that are not float32.
    """

    def __init__(
        self, config: ModelConfig, source: Source | None = None, dtype: str = "float32",
        precision: Precision | None = None, seed: int = 0, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        super().__init__()
        params = Parameters(config, source or fresh(config), dtype, precision, seed, ranks)
        self.config, self.mixed, self.ranks, self.split = config, params.mixed, ranks, axes(config, ranks.tp)
        self.__dict__["counter"] = params.counter
        self.precision = (("logits, loss", "float32", "float32", "a sum over the vocabulary, and one over all tokens"),)
        self.learned, self.context = config.position == "learned", config.max_position_embeddings
        self.embed = Embedding(params / "embed", config.embedding_scale)  # (V, d)
        if self.learned:
            self.position = Embedding(params / "position")  # (t, d)
        else:
            self.rotary = Rotary(config)
        self.dropout = Dropout(config.embd_pdrop, params.counter)
        layers = range(config.num_hidden_layers)
        self.blocks = nn.CellList([Block(config, i, params / "blocks" / i) for i in layers])
        self.norm = NORMS[config.norm](config, params / "norm")
        self.head = Linear(params / "head", tied=config.tie_word_embeddings)  # d → V
        if config.tie_word_embeddings:
            self.head.weight = self.embed.weight  # one parameter, one gradient
        self.rows, self.shares = self.embed.weight.shape[0], self.embed.shares
        if self.shares:
            self.shared, self.gather = Shared(ranks.tp_group), Gathered(ranks)
        self.arange, self.check_length, self.float32 = ops.arange, ops.constexpr(check_length), ms.float32
        params.finish()

    def construct(self, ids: Tensor) -> Tensor:
        logits = self.own(ids)
        return self.gather(logits) if self.shares else logits

    def own(self, ids: Tensor) -> Tensor:
        """Logits of this rank's part of the vocabulary; of all of it where no ranks share it."""
        x, cos, sin = self.inputs(ids, self.arange(ids.shape[1]).expand_dims(0), ids.shape[1])
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.outputs(x)

    def inputs(self, ids: Tensor, positions: Tensor, length: int) -> tuple[Tensor, Any, Any]:
        """What the first block takes: x (B, T, d), and cos and sin (None with learned positions).

        Args:
            ids: (B, T).
            positions: of the ids in their sequences, (B or 1, T).
            length: tokens in the whole sequence, those of a cache included.
        """
        x = self.embed(ids)
        if not self.learned:
            cos, sin = self.rotary(positions, length)
            return self.dropout(x), *((cos, sin) if self.mixed else (cos.astype(x.dtype), sin.astype(x.dtype)))
        self.check_length(length, self.context)
        return self.dropout(x + self.position(positions)), None, None

    def outputs(self, x: Tensor) -> Tensor:
        """Final norm and head: (B, T, d) → logits (B, T, V)."""
        x = self.norm(x)
        return self.head(self.shared(x) if self.shares else x).astype(self.float32)

    def recompute_blocks(self) -> None:
        """From now on keep what goes from block to block only, and compute each block again for its gradient.

        On a CPU this saves memory in PyNative mode only (notebook 07 measures it).
        """
        for block in self.blocks:
            block.recompute()


def check_length(length: int, context: int) -> bool:
    """Stop a sequence that is longer than the table of learned positions.

    Raises:
        UsageError: it is.
    """
    if length > context:
        raise UsageError("the sequence is longer than the model's positions", got=f"{length} tokens",
                         expected=f"at most {context}", do="cut the text")  # fmt: skip
    return True
