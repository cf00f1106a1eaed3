"""GPT-2 and LLaMA translated line by line from transformers to MindSpore, run in PyNative.

This is what a migration that looks up each PyTorch call in an API table ends with: right, and slow. Names are those
of `modeling_gpt2.py` and `modeling_llama.py`. Nothing of `mindport.model` is used but one setting, without which
PyNative's queue spins for the cores and the times depend on what else the machine does: operators are launched by the
thread that calls them. A real migration may well lack it, and be slower still.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.experimental import optim

from mindport.config import ModelConfig, from_dict
from mindport.config.schema import shapes as schema
from mindport.tuning import shapes
from mindport.tuning.contestant import Built

ms.runtime.launch_blocking()

Load = Callable[[str], np.ndarray]  # hub name → values


def step(*, config: dict[str, Any], batch: int, tokens: int) -> Built:
    """A training step: loss and gradients by `value_and_grad`, then the experimental AdamW, which equals torch's."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    given = from_dict(config)
    sizes = schema(given)
    model = MODELS[given.model_type](given, lambda name: shapes.weight(name, sizes[name]), tokens)
    model.set_train()
    matrices = [parameter for parameter in model.trainable_params() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.trainable_params() if parameter.ndim == 1]
    groups = [{"params": matrices, "weight_decay": shapes.WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=shapes.LEARNING_RATE, betas=shapes.BETAS, eps=shapes.EPSILON)

    def forward(input_ids: Tensor, labels: Tensor) -> Tensor:
        logits = model(input_ids)
        shift_logits, shift_labels = logits[:, :-1], labels[:, 1:]
        return ops.cross_entropy(shift_logits.reshape(-1, shift_logits.shape[-1]), shift_labels.reshape(-1))

    gradients_of = ms.value_and_grad(forward, None, weights=optimizer.parameters)
    ids = Tensor(shapes.batch(batch, tokens, given.vocab_size))
    losses: list[float] = []

    def run() -> None:
        loss, gradients = gradients_of(ids, ids)
        optimizer(clip_grad_norm_(gradients, shapes.MAX_NORM))
        losses.append(float(loss.asnumpy()))
        optimizer.parameters[-1].asnumpy()  # operators run in order: with the last one all are done

    return Built(run, lambda: shapes.losses(losses), {"threads": int(os.environ.get("OMP_NUM_THREADS", 0))})


def clip_grad_norm_(gradients: tuple[Tensor, ...], max_norm: float) -> list[Tensor]:
    """PyTorch's, line by line; `ops.clip_by_global_norm` compiles itself anew for every call in PyNative."""
    total_norm = ops.sqrt(sum(ops.square(gradient).sum() for gradient in gradients))
    clip_coef = ops.clamp(max_norm / (total_norm + 1e-6), max=1.0)
    return [gradient * clip_coef for gradient in gradients]


def linear(load: Load, *names: str) -> nn.Dense:
    """`nn.Linear`, with the rows of several hub matrices one below the other."""
    weight = np.concatenate([load(f"{name}.weight") for name in names])
    try:
        bias = np.concatenate([load(f"{name}.bias") for name in names])
    except KeyError:  # this family has none
        return nn.Dense(*weight.shape[::-1], weight_init=Tensor(weight), has_bias=False)
    return nn.Dense(*weight.shape[::-1], weight_init=Tensor(weight), bias_init=Tensor(bias))


def embedding(load: Load, name: str) -> nn.Embedding:
    """`nn.Embedding`."""
    table = load(f"{name}.weight")
    return nn.Embedding(*table.shape, embedding_table=Tensor(table))


def layer_norm(load: Load, name: str, eps: float) -> nn.LayerNorm:
    """`nn.LayerNorm`."""
    weight = load(f"{name}.weight")
    return nn.LayerNorm([weight.size], epsilon=eps, gamma_init=Tensor(weight), beta_init=Tensor(load(f"{name}.bias")))


def causal_mask(tokens: int) -> Tensor:
    """(1, 1, T, T): 0, or the lowest float32 above the diagonal."""
    return Tensor(np.triu(np.full((tokens, tokens), np.finfo(np.float32).min), 1)[None, None])


def eager_attention_forward(query: Tensor, key: Tensor, value: Tensor, scaling: float, mask: Tensor) -> Tensor:
    """(B, H, T, D) → (B, T, H, D)."""
    attn_weights = ops.matmul(query, key.swapaxes(2, 3)) * scaling
    attn_weights = attn_weights + mask
    attn_weights = ops.softmax(attn_weights, axis=-1)
    attn_output = ops.matmul(attn_weights, value)
    return attn_output.swapaxes(1, 2)


class GPT2Attention(nn.Cell):
    def __init__(self, config: ModelConfig, load: Load, at: str) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.c_attn = linear(load, f"{at}.q", f"{at}.k", f"{at}.v")
        self.c_proj = linear(load, f"{at}.o")

    def construct(self, hidden_states: Tensor, mask: Tensor) -> Tensor:
        b, t, d = hidden_states.shape
        query, key, value = ops.split(self.c_attn(hidden_states), d, axis=2)
        shape = (b, t, -1, self.head_dim)
        query, key, value = (x.view(shape).swapaxes(1, 2) for x in (query, key, value))
        attn_output = eager_attention_forward(query, key, value, self.head_dim**-0.5, mask)
        return self.c_proj(attn_output.reshape(b, t, -1))


class GPT2MLP(nn.Cell):
    def __init__(self, config: ModelConfig, load: Load, at: str) -> None:
        super().__init__()
        self.c_fc, self.c_proj = linear(load, f"{at}.up"), linear(load, f"{at}.down")

    def construct(self, hidden_states: Tensor) -> Tensor:
        hidden_states = self.c_fc(hidden_states)
        hidden_states = ops.gelu(hidden_states, approximate="tanh")
        return self.c_proj(hidden_states)


class GPT2Block(nn.Cell):
    def __init__(self, config: ModelConfig, load: Load, at: str) -> None:
        super().__init__()
        self.ln_1 = layer_norm(load, f"{at}.norm1", config.norm_eps)
        self.attn = GPT2Attention(config, load, f"{at}.attn")
        self.ln_2 = layer_norm(load, f"{at}.norm2", config.norm_eps)
        self.mlp = GPT2MLP(config, load, f"{at}.mlp")

    def construct(self, hidden_states: Tensor, mask: Tensor) -> Tensor:
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        hidden_states = self.attn(hidden_states, mask) + residual
        residual = hidden_states
        hidden_states = self.ln_2(hidden_states)
        return residual + self.mlp(hidden_states)


class GPT2LMHeadModel(nn.Cell):
    """Ids (B, T) → logits (B, T, V)."""

    def __init__(self, config: ModelConfig, load: Load, tokens: int) -> None:
        super().__init__()
        self.wte, self.wpe = embedding(load, "embed"), embedding(load, "position")
        self.h = nn.CellList([GPT2Block(config, load, f"blocks.{i}") for i in range(config.num_hidden_layers)])
        self.ln_f = layer_norm(load, "norm", config.norm_eps)
        self.mask = causal_mask(tokens)

    def construct(self, input_ids: Tensor) -> Tensor:
        position_ids = ops.arange(0, input_ids.shape[1])
        hidden_states = self.wte(input_ids) + self.wpe(position_ids)
        for block in self.h:
            hidden_states = block(hidden_states, self.mask)
        hidden_states = self.ln_f(hidden_states)
        return ops.matmul(hidden_states, self.wte.embedding_table.T)


class LlamaRMSNorm(nn.Cell):
    def __init__(self, weight: np.ndarray, eps: float) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = Parameter(Tensor(weight), name="weight"), eps

    def construct(self, hidden_states: Tensor) -> Tensor:
        variance = hidden_states.pow(2).mean(-1, keep_dims=True)
        hidden_states = hidden_states * ops.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states


def rotate_half(x: Tensor) -> Tensor:
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return ops.cat((-x2, x1), axis=-1)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def repeat_kv(hidden_states: Tensor, n_rep: int) -> Tensor:
    batch, heads, tokens, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].broadcast_to((batch, heads, n_rep, tokens, head_dim))
    return hidden_states.reshape(batch, heads * n_rep, tokens, head_dim)


class LlamaAttention(nn.Cell):
    def __init__(self, config: ModelConfig, load: Load, at: str) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.q_proj, self.k_proj = linear(load, f"{at}.q"), linear(load, f"{at}.k")
        self.v_proj, self.o_proj = linear(load, f"{at}.v"), linear(load, f"{at}.o")

    def construct(self, hidden_states: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, t, _ = hidden_states.shape
        shape = (b, t, -1, self.head_dim)
        query = self.q_proj(hidden_states).view(shape).swapaxes(1, 2)
        key = self.k_proj(hidden_states).view(shape).swapaxes(1, 2)
        value = self.v_proj(hidden_states).view(shape).swapaxes(1, 2)
        query, key = apply_rotary_pos_emb(query, key, cos, sin)
        key, value = repeat_kv(key, self.num_key_value_groups), repeat_kv(value, self.num_key_value_groups)
        attn_output = eager_attention_forward(query, key, value, self.head_dim**-0.5, mask)
        return self.o_proj(attn_output.reshape(b, t, -1))


class LlamaMLP(nn.Cell):
    def __init__(self, config: ModelConfig, load: Load, at: str) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = linear(load, f"{at}.gate"), linear(load, f"{at}.up")
        self.down_proj = linear(load, f"{at}.down")

    def construct(self, x: Tensor) -> Tensor:
        return self.down_proj(ops.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Cell):
    def __init__(self, config: ModelConfig, load: Load, at: str) -> None:
        super().__init__()
        self.input_layernorm = LlamaRMSNorm(load(f"{at}.norm1.weight"), config.norm_eps)
        self.self_attn = LlamaAttention(config, load, f"{at}.attn")
        self.post_attention_layernorm = LlamaRMSNorm(load(f"{at}.norm2.weight"), config.norm_eps)
        self.mlp = LlamaMLP(config, load, f"{at}.mlp")

    def construct(self, hidden_states: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = residual + self.self_attn(hidden_states, mask, cos, sin)
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        return residual + self.mlp(hidden_states)


class LlamaForCausalLM(nn.Cell):
    """Ids (B, T) → logits (B, T, V)."""

    def __init__(self, config: ModelConfig, load: Load, tokens: int) -> None:
        super().__init__()
        self.embed_tokens = embedding(load, "embed")
        layers = range(config.num_hidden_layers)
        self.layers = nn.CellList([LlamaDecoderLayer(config, load, f"blocks.{i}") for i in layers])
        self.norm = LlamaRMSNorm(load("norm.weight"), config.norm_eps)
        self.mask = causal_mask(tokens)
        assert config.rope is not None
        pairs = np.arange(0, config.head_dim, 2, dtype=np.float32) / config.head_dim
        self.inv_freq = Tensor((1.0 / config.rope.rope_theta**pairs).astype(np.float32))

    def construct(self, input_ids: Tensor) -> Tensor:
        hidden_states = self.embed_tokens(input_ids)
        position_ids = ops.arange(0, input_ids.shape[1]).unsqueeze(0)
        freqs = position_ids.astype(ms.float32).unsqueeze(-1) * self.inv_freq
        emb = ops.cat((freqs, freqs), axis=-1)  # (1, T, D)
        cos, sin = ops.cos(emb), ops.sin(emb)
        for decoder_layer in self.layers:
            hidden_states = decoder_layer(hidden_states, self.mask, cos, sin)
        hidden_states = self.norm(hidden_states)
        return ops.matmul(hidden_states, self.embed_tokens.embedding_table.T)


MODELS = {"gpt2": GPT2LMHeadModel, "llama": LlamaForCausalLM}
