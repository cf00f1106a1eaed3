"""Tiny random models of the real transformers classes, and ours with the same weights."""

from __future__ import annotations

import contextlib
import functools

import mindspore as ms
import numpy as np
import torch

from mindport.config import read_config
from mindport.config.dialects import DIALECTS
from mindport.config.schema import expand, shapes
from mindport.model import GPT
from tests.families import CONTEXT, FAMILIES, LLAMA3, build, rope

GPT2, LLAMA = FAMILIES["gpt2"][1], FAMILIES["llama"][1]


def gpt2(**changes: object) -> tuple[str, dict]:
    return "gpt2", {**GPT2, **changes}


def llama(**changes: object) -> tuple[str, dict]:
    return "llama", {**LLAMA, **changes}


def dynamic(factor: float = 4.0) -> dict:
    parameters = {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": factor}
    return {"max_position_embeddings": CONTEXT, "rope_parameters": parameters}


CASES = {
    **FAMILIES,
    "gpt2 erf untied": gpt2(activation_function="gelu", tie_word_embeddings=False),
    "gpt2 relu by layer": gpt2(activation_function="relu", scale_attn_by_inverse_layer_idx=True),
    "gpt2 unscaled": gpt2(scale_attn_weights=False, activation_function="silu"),
    "llama tied mqa": llama(tie_word_embeddings=True, num_key_value_heads=1, attention_bias=False),
    "llama mha gelu": llama(num_key_value_heads=6, hidden_act="gelu", mlp_bias=False),
    "linear": llama(**rope("linear")),
    "dynamic": llama(**dynamic()),
    # a second one, since the reference (5.12) never goes back from the frequencies of a longer sequence
    "dynamic, never stretched": llama(**dynamic()),
    "yarn": llama(**rope("yarn")),
    "llama3": llama(**rope("llama3", **LLAMA3)),
}


class Pair:
    """A torch model and what it takes to build ours from it."""

    def __init__(self, directory, family: str, settings: dict) -> None:
        self.torch = build(family, settings)
        self.torch.config.save_pretrained(directory)
        self.config = read_config(directory).model
        state = {name: value.detach().numpy() for name, value in self.torch.state_dict().items()}
        self.values = to_hub(state, self.config)

    @functools.cached_property
    def compiled(self) -> GPT:
        """Ours, for Graph mode: compiled once for each length, in whichever test comes first."""
        return self.ours()

    def ours(self, config=None, values=None, dtype="float32") -> GPT:
        values = values or self.values
        return GPT(config or self.config, lambda name, shape: values[name], dtype)

    def logits(self, ids: np.ndarray) -> np.ndarray:
        return self.torch(torch.from_numpy(ids).long()).logits.detach().numpy()

    def loss_and_gradients(self, ids: np.ndarray, labels: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        self.torch.zero_grad()
        loss = self.torch(torch.from_numpy(ids).long(), labels=torch.from_numpy(labels).long()).loss
        loss.backward()
        gradients = {name: value.grad.numpy() for name, value in self.torch.named_parameters()}
        return loss.item(), to_hub(gradients, self.config)


def to_hub(state: dict[str, np.ndarray], config) -> dict[str, np.ndarray]:
    """Foreign names and layouts → the hub's, written apart from mindport.weights."""
    dialect, values, sizes = DIALECTS[config.model_type], {}, shapes(config)
    for row in dialect.rows:
        for layer in range(config.num_hidden_layers) if "{}" in row.foreign else [0]:
            name = row.foreign.format(layer)
            value = state.get(name, state.get(dialect.prefix + name))
            if value is None or (row.hub == "head.weight" and config.tie_word_embeddings):
                continue
            hubs = [expand(hub, config)[layer] for hub in row.hub.split()]
            values.update(zip(hubs, split(value, row.layout, config, [sizes[hub][0] for hub in hubs]), strict=True))
    return values


def split(value: np.ndarray, layout: str, config, rows: list[int]) -> list[np.ndarray]:
    """One foreign tensor as the hub's."""
    if layout == "grouped_qkv":  # the reference's own view: (heads, 3 · head_dim), chunked in three
        heads = value.reshape(config.num_attention_heads, 3 * config.head_dim, -1)
        parts = (heads[:, i * config.head_dim : (i + 1) * config.head_dim] for i in range(3))
        return [part.reshape(rows[0], *value.shape[1:]) for part in parts]
    value = value.T if value.ndim == 2 and layout in ("transpose", "split_qkv") else value
    return [value[sum(rows[:i]) : sum(rows[: i + 1])] for i in range(len(rows))]


@functools.cache
def token_ids(tokens: int, batch: int = 2, vocab: int = 37) -> np.ndarray:
    return np.random.default_rng(tokens).integers(0, vocab, (batch, tokens)).astype(np.int32)


@contextlib.contextmanager
def execution(mode: int):
    before = ms.get_context("mode")
    ms.set_context(mode=mode)
    try:
        yield
    finally:
        ms.set_context(mode=before)


MODES = {"pynative": ms.PYNATIVE_MODE, "graph": ms.GRAPH_MODE}
