"""Tiny random models of the real transformers classes, and ours with the same weights."""

from __future__ import annotations

import contextlib
import functools

import mindspore as ms
import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from mindport.config import read_config
from mindport.config.dialects import DIALECTS
from mindport.config.schema import expand
from mindport.model import GPT

CONTEXT = 16  # every scaled rope below stretches from here
SCALED = {"factor": 4.0, "original_max_position_embeddings": CONTEXT}

LLAMA = {
    "vocab_size": 37, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "attention_bias": True, "mlp_bias": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GPT2 = {
    "vocab_size": 37, "n_embd": 20, "n_layer": 3, "n_head": 4, "n_positions": 40, "n_inner": 28, "embd_pdrop": 0.0,
    "attn_pdrop": 0.0, "resid_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def rope(kind: str, **values: object) -> dict:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1000.0, **values}}


def dynamic(factor: float = 4.0) -> dict:
    return {"max_position_embeddings": CONTEXT, **rope("dynamic", factor=factor)}


CASES = {
    "gpt2": GPT2,
    "gpt2 erf untied": {**GPT2, "activation_function": "gelu", "tie_word_embeddings": False},
    "gpt2 relu by layer": {**GPT2, "activation_function": "relu", "scale_attn_by_inverse_layer_idx": True},
    "gpt2 unscaled": {**GPT2, "scale_attn_weights": False, "activation_function": "silu"},
    "llama": LLAMA,
    "llama tied mqa": {**LLAMA, "tie_word_embeddings": True, "num_key_value_heads": 1, "attention_bias": False},
    "llama mha gelu": {**LLAMA, "num_key_value_heads": 6, "hidden_act": "gelu", "mlp_bias": False},
    "linear": {**LLAMA, **rope("linear", factor=4.0)},
    "dynamic": {**LLAMA, **dynamic()},
    # a second one, since the reference (5.12) never goes back from the frequencies of a longer sequence
    "dynamic, never stretched": {**LLAMA, **dynamic()},
    "yarn": {**LLAMA, **rope("yarn", **SCALED)},
    "llama3": {**LLAMA, **rope("llama3", **SCALED, low_freq_factor=1.0, high_freq_factor=4.0)},
}


class Pair:
    """A torch model and what it takes to build ours from it."""

    def __init__(self, directory, settings: dict) -> None:
        kind, config = (GPT2LMHeadModel, GPT2Config) if "n_embd" in settings else (LlamaForCausalLM, LlamaConfig)
        torch.manual_seed(0)
        self.torch = kind(config(**settings, attn_implementation="eager")).eval()
        randomise(self.torch)
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


def randomise(model: torch.nn.Module) -> None:
    """Matrices that keep the size of what they multiply, norm weights around 1, biases around 0 but not 0."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            table = "wte" in name or "embed" in name
            value.normal_(0, 1 if table else 0.3 if value.ndim == 1 else value.shape[1] ** -0.5)
            if value.ndim == 1 and name.endswith("weight"):
                value += 1


def to_hub(state: dict[str, np.ndarray], config) -> dict[str, np.ndarray]:
    """Foreign names and layouts → the hub's, written apart from mindport.weights."""
    dialect, values = DIALECTS[config.model_type], {}
    for row in dialect.rows:
        for layer in range(config.num_hidden_layers) if "{}" in row.foreign else [0]:
            name = row.foreign.format(layer)
            value = state.get(name, state.get(dialect.prefix + name))
            if value is None or (row.hub == "head.weight" and config.tie_word_embeddings):
                continue
            value = value.T if value.ndim == 2 and row.layout != "same" else value
            hubs = [expand(hub, config)[layer] for hub in row.hub.split()]
            values.update(zip(hubs, np.split(value, len(hubs)), strict=True))
    return values


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
