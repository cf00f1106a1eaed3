"""The peers in PyTorch: attention, a layer and a training step as its own documentation would have them.

SDPA for the attention, one matrix for q, k and v, `nn.LayerNorm` and `nn.RMSNorm`, AdamW fused or foreach, and
`torch.compile`. It runs in a process of its own: torch and MindSpore never meet.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mindport.config import ModelConfig, from_dict
from mindport.tuning import shapes
from mindport.tuning.contestant import Built

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))


def attention(
    *, heads: int, kv_heads: int, head_dim: int, tokens: int, backward: bool, how: str = "sdpa", batch: int = 1
) -> Built:
    """Causal attention on (B, H, T, D), the layout that SDPA takes without a copy; how: "sdpa" or "matmul"."""
    sizes = {"q": heads, "k": kv_heads, "v": kv_heads, "dy": heads}
    arrays = {name: shapes.normal(name, (batch, tokens, size, head_dim)) for name, size in sizes.items()}
    q, k, v, dy = (torch.from_numpy(array).transpose(1, 2).contiguous() for array in arrays.values())
    attend = {"sdpa": sdpa, "matmul": Matmul(tokens)}[how]
    found: dict[str, Tensor] = {}

    def forward() -> None:
        with torch.no_grad():
            found["y"] = attend(q, k, v)

    def both() -> None:
        leaves = [x.requires_grad_() for x in (q, k, v)]
        found.update(zip(("dq", "dk", "dv"), torch.autograd.grad(attend(*leaves), leaves, dy), strict=True))

    def values() -> dict[str, np.ndarray]:
        return {name: value.transpose(1, 2).contiguous().numpy() for name, value in found.items()}

    return Built(both if backward else forward, values, _about())


def layer(*, config: dict[str, Any], batch: int, tokens: int) -> Built:
    """One block, forward and backward; gradients of its input and of every parameter."""
    model = from_dict(config)
    block = Block(model)
    _fill(block, model, "blocks.0.")
    shape = (batch, tokens, model.hidden_size)
    x, dy = (torch.from_numpy(shapes.normal(name, shape)) for name in ("x", "dy"))
    names, parameters = zip(*block.named_parameters(), strict=True)
    cos, sin = _cos_sin(model, tokens)
    x.requires_grad_()
    found: dict[str, Tensor] = {}

    def run() -> None:
        y = block(x, cos, sin)
        found["y"] = y.detach()
        found.update(zip(("x", *names), torch.autograd.grad(y, (x, *parameters), dy), strict=True))

    def values() -> dict[str, np.ndarray]:
        arrays = {f"blocks.0.{name}": found[name].numpy() for name in names}
        gradients = {f"d {name}": value for name, value in _hub(arrays, model).items()}
        return {"y": found["y"].numpy(), "dx": found["x"].numpy(), **gradients}

    return Built(run, values, _about())


def step(
    *, config: dict[str, Any], batch: int, tokens: int, optimizer: str = "fused", compiled: bool = False,
    tuned: bool = False,
) -> Built:  # fmt: skip
    """A training step of the whole model; optimizer: AdamW "fused" or "foreach"; tuned: as `ours.step` says."""
    model = from_dict(config)
    net = GPT(model, tokens)
    _fill(net, model)
    vectors = [parameter for parameter in net.parameters() if parameter.ndim == 1]
    matrices = [parameter for parameter in net.parameters() if parameter.ndim > 1]
    groups = [{"params": matrices, "weight_decay": shapes.WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    same = {"lr": shapes.LEARNING_RATE, "betas": shapes.BETAS, "eps": shapes.EPSILON}
    adamw = torch.optim.AdamW(groups, **same, **{optimizer: True})
    rows = shapes.batch(batch, tokens, model.vocab_size)
    ids, own = torch.from_numpy(rows).long(), torch.from_numpy(shapes.labels(rows, tuned)).long()
    labels = F.pad(own[:, 1:], (0, 1), value=shapes.IGNORED)  # the next token; the last has none
    loss_of = torch.compile(net) if compiled else net
    losses: list[float] = []

    def run() -> None:
        loss = loss_of(ids, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), shapes.MAX_NORM)
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        losses.append(loss.item())

    return Built(run, lambda: shapes.losses(losses), _about())


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """PyTorch's own attention: causal, heads that share keys."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


class Matmul:
    """Product, mask, softmax, product: what SDPA replaced."""

    def __init__(self, tokens: int) -> None:
        self.mask = torch.triu(torch.full((tokens, tokens), float("-inf")), 1)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        group = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(group, 1) if group > 1 else x for x in (k, v))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + self.mask  # (B, H, T, T)
        return scores.softmax(-1) @ v


class Attention(nn.Module):
    """q, k and v from one matrix."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = head_sizes(config)
        rows = (self.heads + 2 * self.kv_heads) * self.head_dim
        self.qkv = nn.Linear(config.hidden_size, rows, bias=config.qkv_bias)
        self.o = nn.Linear(self.heads * self.head_dim, config.hidden_size, bias=config.attention_out_bias)

    def forward(self, x: Tensor, cos: Tensor | None, sin: Tensor | None) -> Tensor:
        parts = self.qkv(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H + 2 K, T, D)
        q, k, v = parts.split((self.heads, self.kv_heads, self.kv_heads), 1)
        if cos is not None and sin is not None:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        return self.o(sdpa(q, k, v).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """down(gelu(up(x))), or down(silu(gate(x)) · up(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, hidden, self.gated = config.hidden_size, config.intermediate_size, config.gated_mlp
        if self.gated:
            self.gate = nn.Linear(width, hidden, bias=config.mlp_bias)
        self.up = nn.Linear(width, hidden, bias=config.mlp_bias)
        self.down = nn.Linear(hidden, width, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        up = self.up(x)
        return self.down(F.silu(self.gate(x)) * up if self.gated else F.gelu(up, approximate="tanh"))


class Block(nn.Module):
    """One layer, pre-normalised."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm1, self.attn = norm(config), Attention(config)
        self.norm2, self.mlp = norm(config), MLP(config)

    def forward(self, x: Tensor, cos: Tensor | None = None, sin: Tensor | None = None) -> Tensor:
        x = x + self.attn(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Ids and labels → the mean cross entropy."""

    def __init__(self, config: ModelConfig, tokens: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.learned = config.position == "learned"
        if self.learned:
            self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = norm(config)
        self.cos, self.sin = _cos_sin(config, tokens)

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.embed(ids)
        if self.learned:
            x = x + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embed.weight)  # (B, T, V)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def norm(config: ModelConfig) -> nn.Module:
    """The configuration's norm."""
    make: Callable[..., nn.Module] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}[config.norm]
    return make(config.hidden_size, eps=config.norm_eps)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions as transformers applies them: x cos + rotate_half(x) sin, (B, H, T, D)."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


def head_sizes(config: ModelConfig) -> tuple[int, int, int]:
    """Query heads, key/value heads, head_dim."""
    return config.num_attention_heads, config.num_key_value_heads, config.head_dim


def _cos_sin(config: ModelConfig, tokens: int) -> tuple[Tensor | None, Tensor | None]:
    """(T, D) each, made once; None with learned positions."""
    if config.rope is None:
        return None, None
    pairs = torch.arange(0, config.head_dim, 2) / config.head_dim
    angles = torch.outer(torch.arange(tokens).float(), 1.0 / config.rope.rope_theta**pairs)
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def _fill(module: nn.Module, config: ModelConfig, prefix: str = "") -> None:
    """Give every parameter the values of its hub name; q, k and v are stacked."""
    sizes = _qkv_rows(config)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            hub, shape = prefix + name, tuple(parameter.shape)
            parts = {hub.replace("qkv", part): (rows, *shape[1:]) for part, rows in sizes.items()}
            parts = parts if ".qkv." in hub else {hub: shape}
            value = np.concatenate([shapes.weight(*part) for part in parts.items()])
            parameter.copy_(torch.from_numpy(value))


def _hub(arrays: dict[str, np.ndarray], config: ModelConfig) -> dict[str, np.ndarray]:
    """Arrays by their hub names: what was stacked for q, k and v taken apart."""
    ends = np.cumsum(list(_qkv_rows(config).values()))[:-1]
    apart = {}
    for name, array in arrays.items():
        if ".qkv." in name:
            apart.update(zip((name.replace("qkv", part) for part in "qkv"), np.split(array, ends), strict=True))
        else:
            apart[name] = array
    return apart


def _qkv_rows(config: ModelConfig) -> dict[str, int]:
    heads, kv_heads, head_dim = head_sizes(config)
    return {"q": heads * head_dim, "k": kv_heads * head_dim, "v": kv_heads * head_dim}


def _about() -> dict[str, Any]:
    return {"threads": torch.get_num_threads(), "cpu": torch.backends.cpu.get_cpu_capability()}
