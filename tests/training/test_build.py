"""Optimizer and schedule as the configuration wants them, against transformers' own."""

from __future__ import annotations

from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
import torch
import transformers
from mindspore import Tensor
from transformers import Trainer

from mindport.errors import UsageError
from mindport.training import build, is_matrix
from mindport.training.config import OptimizerConfig, PrecisionConfig, ScheduleConfig, TrainConfig
from tests.model.reference import CASES, Pair, to_hub

LR = 3e-4


def expected(shape: str, warmup: int, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    name = shape if shape != "constant" else "constant_with_warmup"
    schedule, rates = transformers.get_scheduler(name, optimizer, warmup, steps), []
    for _ in range(steps + 1):  # also the rate of a step after the last
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return rates


def rates(shape: str, warmup: int, steps: int) -> list[float]:
    config = TrainConfig(steps=steps, optimizer=OptimizerConfig(lr=LR), schedule=ScheduleConfig(shape, warmup))
    schedule = build.schedule(config)
    return [schedule(Tensor(step, ms.int32)).asnumpy().item() for step in range(steps + 1)]


@pytest.mark.parametrize("shape", ["constant", "linear", "cosine"])
@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (0, 7), (1, 7), (6, 7)])
def test_first_and_last_rates_equal_transformers(shape, warmup, steps):
    """No warm-up, one step of it, and all steps but one."""
    got = rates(shape, warmup, steps)
    assert got == pytest.approx(expected(shape, warmup, steps), rel=1e-6, abs=1e-9 * LR)
    assert got != pytest.approx(expected(shape, warmup + 1, steps + 1)[: steps + 1], rel=1e-6, abs=1e-9 * LR)


def test_a_schedule_of_no_known_shape_stops():
    with pytest.raises(UsageError, match="no such schedule"):
        build.schedule(TrainConfig(schedule=ScheduleConfig("square")))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3", "gpt_neox"])
def test_transformers_trainer_decays_the_same_weights(name, tmp_path):
    """Embeddings decay there; norms, also those of queries and keys, and biases do not."""
    pair = Pair(tmp_path, *CASES[name])
    decays = set(Trainer.get_decay_parameter_names(None, pair.torch))
    marked = {key: np.full(value.shape, key in decays) for key, value in pair.torch.state_dict().items()}
    weights = {weight.name: weight for weight in pair.ours().trainable_params()}
    wanted = {key: bool(value.all()) for key, value in to_hub(marked, pair.config).items()}
    assert {key: is_matrix(weight) for key, weight in weights.items()} == wanted
    assert len(set(wanted.values())) == 2


def decays(pair, *patterns: str) -> set[str]:
    optimizer = build.optimizer(pair("gpt2").ours().trainable_params(), OptimizerConfig(no_decay=patterns))
    shares = optimizer.update.decay.asnumpy() if hasattr(optimizer.update.decay, "asnumpy") else optimizer.update.decay
    return {weight.name for weight, share in zip(optimizer.weights, shares, strict=True) if share}


def test_named_weights_do_not_decay(pair):
    spared = decays(pair) - decays(pair, "embed.*", "position.*", "blocks.1.attn.*")
    attention = {f"blocks.1.attn.{part}.weight" for part in "qkvo"}
    assert spared == {"embed.weight", "position.weight", *attention}


def test_a_name_that_nothing_has_stops(pair):
    with pytest.raises(UsageError, match="no weight has such a name"):
        decays(pair, "embed.*", "transformer.wte.weight")


def test_only_float16_has_a_loss_scale():
    assert build.loss_scale(PrecisionConfig("O0", "float16")) is None
    assert build.loss_scale(PrecisionConfig("O1", "bfloat16")) is None
    scaling = build.loss_scale(replace(PrecisionConfig("O2", "float16"), loss_scale=8.0, window=3))
    assert (scaling.value.asnumpy(), scaling.window) == (8.0, 3)
