"""What each of four processes does for `test_split.py`: models of several families, split, beside whole ones.

A figure is a difference from one process that has everything, relative to the largest of what it is a difference of.
The references are computed by every rank for itself, in PyNative.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from mindport.config import ModelConfig
from mindport.config.schema import shapes
from mindport.config.split import part
from mindport.model import GPT, NextTokenLoss, Precision, gpt, greedy
from mindport.model.collectives import Gathered
from mindport.model.dropout import Counter, with_dropout
from mindport.model.execution import execution
from mindport.model.kernels import IGNORED
from mindport.parallel.join import join
from mindport.ranks import ALONE, Ranks
from mindport.training.clip import ClipNorm
from tests.weights.models import config_of

ROWS, TOKENS, P = 4, 9, 0.2
GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 44, "n_embd": 32, "n_layer": 2,
    "n_head": 4, "n_positions": 19, "n_inner": 52, "activation_function": "gelu_new", "tie_word_embeddings": True,
    "scale_attn_by_inverse_layer_idx": True, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 44, "hidden_size": 20,
    "intermediate_size": 44, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 6,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
    "attention_bias": True, "mlp_bias": True, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
QWEN3 = {
    **{key: value for key, value in LLAMA.items() if key != "mlp_bias"}, "model_type": "qwen3", "head_dim": 8,
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": False,
}  # fmt: skip
NEOX = {
    "model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "vocab_size": 44, "hidden_size": 32,
    "intermediate_size": 52, "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 64,
    "rotary_pct": 0.25, "hidden_act": "gelu", "use_parallel_residual": True, "tie_word_embeddings": False,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
FAMILIES = {"gpt2": GPT2, "odd vocabulary": {**GPT2, "vocab_size": 37, "n_layer": 1}, "llama": LLAMA, "qwen3": QWEN3,
            "gpt_neox": NEOX}  # fmt: skip
# of other families, to spend a model less
MORE = {"qwen3": {"window": (3,), "embedding_scale": 3.0, "tie_word_embeddings": True, "attention_out_bias": True}}


class Pass(nn.Cell):
    """A pass of a training, without its optimizer: loss and gradients."""

    def __init__(self, model: GPT) -> None:
        super().__init__(auto_prefix=False)
        self.counter, self.loss = model.counter, NextTokenLoss(model)
        self.both = ms.value_and_grad(self.loss, None, weights=model.trainable_params())
        self.set_train()

    def construct(self, ids: Tensor, labels: Tensor) -> Any:
        self.counter()
        return self.both(ids, labels)


class Case:
    """A family with random weights, on a batch of random ids of which some do not count."""

    def __init__(self, family: str) -> None:
        with tempfile.TemporaryDirectory() as directory:
            config = replace(config_of(FAMILIES[family], Path(directory)), **MORE.get(family, {}))
        self.config: ModelConfig = with_dropout(config, P)
        random = np.random.default_rng(1)
        self.values = {name: (random.standard_normal(shape) * 0.3 + 0.5 * ("norm" in name)).astype(np.float32)
                       for name, shape in shapes(self.config).items()}  # fmt: skip
        self.ids = random.integers(0, self.config.vocab_size, (ROWS, TOKENS)).astype(np.int32)
        self.labels = np.where(random.random(self.ids.shape) < 0.2, IGNORED, self.ids).astype(np.int32)

    def model(self, ranks: Ranks = ALONE, precision: Precision | None = None, again: bool = False) -> GPT:
        model = GPT(self.config, lambda name, shape: self.values[name], precision=precision, seed=7, ranks=ranks)
        if again:
            model.recompute_blocks()
        return model

    @functools.cached_property
    def alone(self) -> tuple[GPT, float, dict[str, np.ndarray], np.ndarray]:
        """The model of one process, its loss, gradients and logits."""
        model = self.model()
        return (model, *learn(model, self.ids, self.labels), logits(model, self.ids))


def learn(model: GPT, ids: np.ndarray, labels: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
    """Loss and gradients."""
    loss, gradients = Pass(model)(Tensor(ids), Tensor(labels))
    return float(loss.asnumpy()), {
        w.name: g.asnumpy() for w, g in zip(model.trainable_params(), gradients, strict=True)
    }


def logits(model: GPT, ids: np.ndarray) -> np.ndarray:
    return model.set_train(False)(Tensor(ids)).asnumpy()


def relative(got: np.ndarray, expected: np.ndarray, least: float = 0.0) -> float:
    return float(np.abs(got.astype(np.float64) - expected).max() / max(np.abs(expected).max(), least))


def total(values: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    if not group:
        return values
    add = ops.AllReduce(group=group)
    return {
        name: add(Tensor(np.atleast_1d(value))).asnumpy().reshape(np.shape(value)) for name, value in values.items()
    }


def figures(it: Case, ranks: Ranks, mode: str, **how: Any) -> dict[str, float]:
    """How far a split model is from the whole one; 0 or more, each as small as rounding."""
    rows = slice(ranks.dp_rank * ROWS // ranks.dp, (ranks.dp_rank + 1) * ROWS // ranks.dp)
    ids, labels = it.ids[rows], it.labels[rows]
    _, loss, gradients, expected = it.alone
    with execution(mode):
        model = it.model(ranks, **how)
        my_loss, mine = learn(model, ids, labels)
        my_logits = logits(model, ids)
    # the mean over a batch from those over its parts, by how many labels count in each
    weight = (labels[:, 1:] != IGNORED).sum() / (it.labels[:, 1:] != IGNORED).sum()
    sums = total({name: np.float32(x * weight) for name, x in {"": my_loss, **mine}.items()}, ranks.dp_group)
    largest = max(np.abs(x).max() for x in gradients.values())
    whole_norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in gradients.values()))
    off = {name: relative(sums[name], gradients[name][part(name, it.config, ranks)], 1e-2 * largest) for name in mine}
    return {
        "loss": relative(sums[""], np.array(loss)), "logits": relative(my_logits, expected[rows]),
        "gradients": max(off.values()), "not alike": unlike(model, mine, my_loss, ranks),
        "norm": relative(norm(model, sums), whole_norm),
    }  # fmt: skip


def unlike(model: GPT, gradients: dict[str, np.ndarray], loss: float, ranks: Ranks) -> float:
    """How many of the numbers that all ranks have whole differ by a bit."""
    flat = np.concatenate([[loss], *(g.ravel() for name, g in gradients.items() if name not in model.split)])
    every = Gathered(ranks)(Tensor(flat.astype(np.float32))).asnumpy().reshape(ranks.tp, -1)
    return float((every != every[0]).sum())


def norm(model: GPT, gradients: dict[str, np.ndarray]) -> np.ndarray:
    weights = [weight.name for weight in model.trainable_params()]
    clip = ClipNorm(1.0, [name in model.split for name in weights], model.ranks.tp_group)
    return clip(tuple(Tensor(gradients[name]) for name in weights))[0].asnumpy()


@contextlib.contextmanager
def fault(name: str) -> Iterator[None]:
    """One that a split model may have."""

    def biased(self: gpt.Linear, x: Tensor) -> Tensor:
        y = self.linear(x, self.weight)
        return self.sum(y + self.bias if self.has_bias else y)

    faults = {
        "a bias added by every rank": patch.object(gpt.Linear, "summed", biased),
        "each rank keeps its own gradient of q_norm": patch.object(gpt, "of_heads", lambda norm, params: norm),
        "every rank drops as the first": patch("mindport.model.parameters.Counter", lambda seed, ranks: Counter(seed)),
        "the gradient of the input is the rank's own": patch.object(gpt, "Shared", lambda group: nn.Identity()),
    }
    with faults[name]:
        yield


def stops(it: Case, ranks: Ranks) -> dict[str, bool]:
    """Ids and labels that are in no part of the vocabulary."""
    loss, found = NextTokenLoss(it.model(ranks)), {}
    for name, ids, labels in (
        ("id", it.ids + 40, it.ids),
        ("label", it.ids, it.ids + 40),
        ("-1", it.ids, it.ids * 0 - 1),
    ):
        try:
            loss(Tensor(ids.astype(np.int32)), Tensor(labels.astype(np.int32))).asnumpy()
        except RuntimeError:
            found[name] = True
    return found


def continued(it: Case, model: GPT) -> bool:
    """Whether the greedy continuation is that of one process."""
    return greedy(model, it.ids[0, :4].tolist(), 6) == greedy(it.alone[0], it.ids[0, :4].tolist(), 6)


FAULTS = {  # and a family that has what is wrong
    "a bias added by every rank": "gpt2",
    "each rank keeps its own gradient of q_norm": "qwen3",
    "every rank drops as the first": "gpt2",
    "the gradient of the input is the rank's own": "llama",
}


def surprises() -> dict[str, str]:
    """What MindSpore says to the collectives that the library does without, and what it takes for the slope of one."""
    ranks, said = join(2, 2), {}
    asked = {"AllGather in a group": ops.AllGather(group=ranks.tp_group),
             "the largest": ops.AllReduce(ops.ReduceOp.MAX, ranks.tp_group)}  # fmt: skip
    for name, collective in asked.items():
        try:
            said[name] = str(collective(Tensor([1.0], ms.float32)).asnumpy())
        except RuntimeError as error:
            said[name] = str(error).splitlines()[0]
    add = ops.AllReduce(group=ranks.tp_group)
    said["slope of a sum"] = str(ms.grad(lambda x: add(x))(Tensor([1.0], ms.float32)).asnumpy())
    return said


def check() -> dict[str, Any]:
    """All figures of this rank: of the whole grid, and then of its pair, one of which compiles meanwhile."""
    four, grid = join(1, 4), join(2, 2)
    cases = {family: Case(family) for family in FAMILIES}
    found = {f"{family}, dp 2, tp 2": figures(it, grid, "pynative") for family, it in cases.items()}
    found["llama, tp 4"] = figures(cases["llama"], four, "pynative")
    stopped, same = stops(cases["llama"], grid), continued(cases["llama"], cases["llama"].model(four))
    pair = Ranks(1, 2, grid.tp_rank, "", grid.tp_group)
    more = compiled(cases, pair) if grid.dp_rank == 0 else disturbed(cases, pair)
    return {"figures": found, "continued": same, "stops": stopped, "surprises": surprises(), **more}


def compiled(cases: dict[str, Case], pair: Ranks) -> dict[str, Any]:
    return {"graph": figures(cases["qwen3"], pair, "graph")}


def disturbed(cases: dict[str, Case], pair: Ranks) -> dict[str, Any]:
    """With blocks computed again, in half, and with each of the faults."""
    found = {"again": figures(cases["llama"], pair, "pynative", again=True),
             "half": figures(cases["gpt_neox"], pair, "pynative", precision=Precision("O2")), "faults": {}}  # fmt: skip
    for name, family in FAULTS.items():
        with fault(name):
            found["faults"][name] = figures(cases[family], pair, "pynative")
    return found
