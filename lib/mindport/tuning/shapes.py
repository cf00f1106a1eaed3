"""What the benchmarks compute: models, batches, and the numbers in them, the same for every contestant.

Every array comes from its own seed, made of its name, so that contestants need no file and no order in common.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mindport.config import ModelConfig, Rope, to_dict

# AdamW of every contestant: large enough that five steps tell a wrong optimizer from a right one
LEARNING_RATE, BETAS, EPSILON = 1e-3, (0.9, 0.95), 1e-8
WEIGHT_DECAY = 0.1  # of matrices; norms and biases have none
MAX_NORM = 1.0  # to which the gradients are clipped
STEPS = 5  # whose losses are compared
IGNORED = -100  # label of a token that does not count


def gpt2(width: int, heads: int, *, layers: int, vocab_size: int, context: int) -> ModelConfig:
    """A GPT-2 of this size, without dropout."""
    return ModelConfig(
        model_type="gpt2", vocab_size=vocab_size, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=heads, head_dim=width // heads, intermediate_size=4 * width,
        max_position_embeddings=context, hidden_act="gelu_tanh", gated_mlp=False, norm="layer", norm_eps=1e-5,
        position="learned", qkv_bias=True, attention_out_bias=True, mlp_bias=True, tie_word_embeddings=True,
    )  # fmt: skip


def llama(width: int, heads: int, kv_heads: int, ffn: int, *, layers: int, vocab_size: int) -> ModelConfig:
    """A LLaMA of this size with a tied head, as SmolLM2 has."""
    return ModelConfig(
        model_type="llama", vocab_size=vocab_size, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=width // heads, intermediate_size=ffn,
        max_position_embeddings=8192, hidden_act="silu", gated_mlp=True, norm="rms", norm_eps=1e-5, position="rope",
        rope=Rope(rope_theta=1e5), qkv_bias=False, attention_out_bias=False, mlp_bias=False, tie_word_embeddings=True,
    )  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """A model and the batch that it is trained on: `batch` sequences of `tokens` tokens."""

    name: str
    config: ModelConfig
    batch: int
    tokens: int

    def settings(self) -> dict[str, Any]:
        """As JSON values, which a contestant's `build` takes."""
        return {"config": to_dict(self.config), "batch": self.batch, "tokens": self.tokens}


GPT2_LAYER = Workload("GPT-2 layer (768, 12 heads), T 1024",
                      gpt2(768, 12, layers=1, vocab_size=64, context=1024), 1, 1024)  # fmt: skip
LLAMA_LAYER = Workload("LLaMA layer (576, 9/3 heads), T 1024",
                       llama(576, 9, 3, 1536, layers=1, vocab_size=64), 1, 1024)  # fmt: skip
GPT2_STEP = Workload("GPT-2 step (4 layers, 512, V 8192), 4 × 256",
                     gpt2(512, 8, layers=4, vocab_size=8192, context=256), 4, 256)  # fmt: skip
SMOLLM2_STEP = Workload("SmolLM2 step (6 layers, 576, 9/3 heads, V 49152), 1 × 512",
                        llama(576, 9, 3, 1536, layers=6, vocab_size=49152), 1, 512)  # fmt: skip
SMOLLM2_WHOLE = Workload("SmolLM2-135M fine-tuned (30 layers, 576, 9/3 heads, V 49152), 2 × 256",
                         llama(576, 9, 3, 1536, layers=30, vocab_size=49152), 2, 256)  # fmt: skip


def quick(workload: Workload) -> Workload:
    """The same in tiny: it says whether everything works, and nothing about speed."""
    sizes = {"vocab_size": 96, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "intermediate_size": 80,
             "num_key_value_heads": 4 if workload.config.model_type == "gpt2" else 2}  # fmt: skip
    config = replace(workload.config, **sizes, num_hidden_layers=min(2, workload.config.num_hidden_layers))
    return Workload(f"quick {workload.name.split(' (')[0]}", config, min(2, workload.batch), 24)


def normal(name: str, shape: tuple[int, ...], scale: float = 1.0) -> np.ndarray:
    """N(0, scale²) in float32."""
    return _generator(name).standard_normal(shape, np.float32) * np.float32(scale)


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A parameter by its hub name: matrices of variance 1 / inputs, norms about 1, biases about 0.

    So scores have a deviation of 1: where the softmax is flat, a wrong scale would change no loss.
    """
    if len(shape) > 1:
        return normal(name, shape, 1 / math.sqrt(shape[1]))
    return normal(name, shape, 0.1) + np.float32(name.endswith("weight"))


def batch(workload_batch: int, tokens: int, vocab_size: int) -> np.ndarray:
    """Token ids (B, T), int32."""
    return _generator("ids").integers(0, vocab_size, (workload_batch, tokens), dtype=np.int32)


def labels(ids: np.ndarray, tuned: bool) -> np.ndarray:
    """The ids themselves, int32 (B, T); to fine-tune, −100 in each row's prompt, a fourth of it, and in its padding."""
    if not tuned:
        return ids
    rows, tokens = ids.shape
    ends = np.linspace(tokens, tokens // 2, rows).astype(int)[:, None]  # the first row is full
    place = np.arange(tokens)
    return np.where((place >= tokens // 4) & (place < ends), ids, IGNORED).astype(np.int32)


def losses(found: Sequence[float]) -> dict[str, np.ndarray]:
    """The losses of the first steps, by name: what contestants of a training step are compared by."""
    return {f"loss {n}": np.float64(loss) for n, loss in enumerate(found[:STEPS], 1)}


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))
