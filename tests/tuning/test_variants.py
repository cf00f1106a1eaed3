"""Another formulation is in the model when it was asked for, with the same parameters and the same loss."""

from __future__ import annotations

import pytest
from mindspore import Tensor, nn

from mindport.model import GPT, NextTokenLoss
from mindport.model.gpt import Linear
from mindport.tuning import shapes
from mindport.tuning.variants import VARIANTS, BroadcastMask, OpsCrossEntropy

GPT2, LLAMA = shapes.quick(shapes.GPT2_STEP), shapes.quick(shapes.SMOLLM2_STEP)


def loss_of(workload: shapes.Workload, variant: str | None = None) -> NextTokenLoss:
    loss = NextTokenLoss(GPT(workload.config, shapes.weight))
    if variant:
        VARIANTS[variant](loss)
    return loss


def cells(loss: NextTokenLoss, kind: type[nn.Cell]) -> int:
    return sum(isinstance(cell, kind) for _, cell in loss.cells_and_names())


@pytest.mark.parametrize(
    ("variant", "workload", "kind", "count"),
    [
        ("nn.Dense", GPT2, nn.Dense, 2 * 6),
        ("nn.Dense", LLAMA, nn.Dense, 2 * 7),
        ("broadcast mask", LLAMA, BroadcastMask, 2),
        ("ops.cross_entropy", GPT2, OpsCrossEntropy, 1),
    ],
)
def test_it_stands_in_for_every_piece_of_its_kind(variant, workload, kind, count):
    plain, varied = loss_of(workload), loss_of(workload, variant)
    assert cells(plain, kind) == 0 and cells(varied, kind) == count
    assert variant != "nn.Dense" or cells(varied, Linear) == 1  # the tied head
    names = [[parameter.name for parameter in loss.trainable_params()] for loss in (plain, varied)]
    assert sorted(names[0]) == sorted(names[1])


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_has_the_same_loss(variant):
    for workload in (GPT2, LLAMA):
        ids = Tensor(shapes.batch(2, 24, workload.config.vocab_size))
        losses = [float(loss(ids, ids).asnumpy()) for loss in (loss_of(workload), loss_of(workload, variant))]
        assert losses[1] == pytest.approx(losses[0], rel=1e-5)
