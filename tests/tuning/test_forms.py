"""The forms of a training step, really computed in PyNative mode: equal where they must be, off where a fault is."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest

from mindport.errors import BackendError
from mindport.model import GPT, NextTokenLoss
from mindport.model.kernels import Choice
from mindport.sources import resolve
from mindport.tuning import cut_model, forms, shapes
from mindport.tuning.study import GRADIENT_LIMIT, KERNELS
from mindport.tuning.workload import shaped

MODELS = ("tiny-llama", "tiny-gpt2")


def settings(name: str) -> dict:
    return shaped(cut_model(resolve(name), "smoke").config, 4, 9).settings()


def values(name: str, **changes) -> dict[str, np.ndarray]:
    """Losses of two steps, and the first gradients."""
    built = forms.step(**settings(name), mode="pynative", **changes)
    built.run()
    built.run()
    return built.values()


def worst(ours: dict[str, np.ndarray], its: dict[str, np.ndarray]) -> float:
    assert ours.keys() == its.keys()
    return max(float(np.abs(ours[key] - its[key]).max() / np.abs(its[key]).max()) for key in its)


@pytest.fixture(scope="module", params=MODELS)
def plain(request) -> tuple[str, dict[str, np.ndarray]]:
    return request.param, values(request.param, fast=())


@pytest.mark.parametrize("changes", [{"fast": KERNELS}, {"fast": (), "pieces": 4}, {"fast": (), "recompute": True}],
                         ids=["fused", "pieces", "recompute"])  # fmt: skip
def test_every_form_computes_the_same(plain, changes):
    name, right = plain
    assert worst(values(name, **changes), right) < GRADIENT_LIMIT


@pytest.mark.parametrize("fault", [forms.MASK, forms.ACTIVATION])
def test_a_planted_fault_is_off(plain, fault):
    name, right = plain
    assert worst(values(name, fast=(), fault=fault), right) > 5 * GRADIENT_LIMIT  # erf for tanh is the smallest


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_half_precision_is_off_by_what_it_can_tell(plain, level):
    name, right = plain
    assert GRADIENT_LIMIT < worst(values(name, fast=(), amp=level), right) < 0.1


def test_the_gradients_are_those_of_the_loss(plain):
    name, right = plain
    given = settings(name)
    loss = NextTokenLoss(GPT(forms.from_dict(given["config"]), shapes.weight)).set_train()
    ids = ms.Tensor(shapes.batch(given["batch"], given["tokens"], given["config"]["vocab_size"]))
    weights = ms.ParameterTuple(loss.trainable_params())
    _, gradients = ms.value_and_grad(loss, None, weights)(ids, ids)
    direct = {f"gradient of {weight.name.replace(*forms.TIED)}": forms._sample(gradient.asnumpy())
              for weight, gradient in zip(weights, gradients, strict=True)}  # fmt: skip
    kept = {key: value for key, value in right.items() if key.startswith("gradient")}
    assert worst(kept, {key: direct[key] for key in kept}) < 1e-5
    assert {key for key in direct if not key.endswith(forms.NO_GRADIENT)} == kept.keys()


def test_a_kernel_that_is_no_faster_here_is_a_reason():
    plain, fast = Choice("rope", "reference", "CPU: no compiler"), Choice("swiglu", "cpu", "C++")
    forms.check_paths(["rope", "swiglu"], [plain, fast])
    forms.check_paths([], [plain])
    with pytest.raises(BackendError, match="rope, CPU: no compiler"):
        forms.check_paths(["rope"], [plain, fast])
    with pytest.raises(BackendError, match="no gelu to replace"):
        forms.check_paths(["gelu"], [plain, fast])
