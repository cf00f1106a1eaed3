"""A training of ours beside the same one in torch: right ones are one curve, and a fault is red where it belongs."""

from __future__ import annotations

import copy
import dataclasses
import json
import math

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Tensor

from mindport import cli
from mindport.config import read_config
from mindport.errors import FileError, UsageError
from mindport.files import read_json
from mindport.model import NextTokenLoss, load_model
from mindport.parity import reference_run
from mindport.parity.beside import check_comparable
from mindport.parity.curves import FIRST, LIMITS, CurveReport, Ran
from mindport.parity.exchange import (
    Fed,
    RunRecipe,
    counted,
    read_answer,
    read_fed,
    read_recipe,
    threads,
    write_answer,
    write_fed,
    write_recipe,
)
from mindport.parity.reference import load, settle
from mindport.sources import corpus
from mindport.training import AdamW, Cosine, TrainStep
from mindport.training.config import PrecisionConfig, TrainConfig
from tests.model.reference import execution

MODEL, STEPS, WARMUP = "llama-tied-yarn-bias", 12, 3
TOLD = RunRecipe(steps=STEPS, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.3, max_norm=1.0, shape="cosine",
                 warmup=WARMUP)  # fmt: skip
MOVED = 3  # step 1 has rate 0 and step 2 moves the weights: the loss of step 3 is the first that can tell


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Text with prompts and padding, of another length in each row."""
    generator = np.random.default_rng(seed)
    place, ids = np.arange(13), generator.integers(3, 59, (2, 13))
    start, end = generator.integers(0, 4, (2, 1)), generator.integers(7, 14, (2, 1))
    labels = np.where((place >= start) & (place < end), ids, -100)
    return np.where(place < end, ids, 0).astype(np.int32), labels.astype(np.int32)


FED = Fed([[rows(2 * step), rows(2 * step + 1)] for step in range(STEPS)], [rows(100), rows(101)])


class Ours:
    """Our pieces, two parts a step, in PyNative mode."""

    def __init__(self, directory) -> None:
        model = load_model(directory)
        optimizer = AdamW(model.trainable_params(), betas=TOLD.betas, eps=TOLD.eps, weight_decay=TOLD.weight_decay)
        schedule = Cosine(TOLD.lr, total=STEPS, warmup=WARMUP)
        self.step = TrainStep(model, NextTokenLoss(model), optimizer, schedule, TOLD.max_norm).set_train(False)

    def take(self, parts) -> tuple[float, float, float, int]:
        counts = [counted(labels) for _, labels in parts]
        shares = [count / sum(counts) for count in counts]
        found = [self.step.loss_and_gradients(*map(Tensor, part)) for part in parts]
        loss = sum(part.asnumpy().item() * share for (part, _), share in zip(found, shares, strict=True))
        weighted = [[g * share for g in gradients] for (_, gradients), share in zip(found, shares, strict=True)]
        gradients = tuple(map(sum, zip(*weighted, strict=True)))
        norm, scale = self.step.clip(gradients)
        lr = self.step.schedule(self.step.optimizer.step)
        self.step.optimizer(gradients, lr, scale)
        return loss, norm.asnumpy().item(), lr.asnumpy().item(), sum(counts)

    def measure(self, batches) -> float:
        counts = [counted(labels) for _, labels in batches]
        losses = [self.step.loss(*map(Tensor, part)).asnumpy().item() for part in batches]
        return float(np.average(losses, weights=counts))


@pytest.fixture(scope="module")
def ours(case) -> Ran:
    with execution(ms.PYNATIVE_MODE):
        run = Ours(case(MODEL).converted)
        before = run.measure(FED.held_out)
        steps = [run.take(parts) for parts in FED.steps]
        loss, norm, lr, count = zip(*steps, strict=True)
        return Ran("ours", loss, norm, lr, count, held_out=(before, run.measure(FED.held_out)))


@pytest.fixture(scope="module")
def model(case):
    settle()
    report = read_config(case(MODEL).source)
    return load(case(MODEL).source, report.dialect, report.model, attention="sdpa")


@pytest.fixture
def beside(ours, model):
    """The report of ours beside a run of torch, whose recipe and batches may be others."""

    def get(fed: Fed = FED, spoil=lambda model: None, **changes) -> CurveReport:
        fresh = copy.deepcopy(model)
        spoil(fresh)
        reference = reference_run.train(fresh, dataclasses.replace(TOLD, **changes), fed)
        return CurveReport(model=MODEL, ours=ours, reference=reference, exact=None, recipe=TOLD.as_dict(), accumulate=2)

    return get


def first_red(report: CurveReport) -> tuple[str, int | None]:
    assert not report.ok and report.first_red is not None
    return report.first_red.quantity, report.first_red.first_red


def test_right_trainings_are_one_curve(beside):
    report = beside()
    assert report.ok and report.first_red is None and report.reading() == "", report.text()
    assert report.course("loss").error <= 1e-5
    assert report.reference.lr[0] == 0.0 < report.reference.lr[1]
    assert report.reference.loss[-1] != report.reference.loss[0]
    assert any(norm > TOLD.max_norm for norm in report.reference.norm), "clipping binds"
    assert len({*report.reference.counted}) > 1, "steps have other numbers of tokens"
    assert [line.state for line in report.properties()] == ["verified"] * 4
    json.dumps(report.as_dict(), allow_nan=False)


def test_the_schedule_a_step_off(beside, monkeypatch):
    late = reference_run.SCHEDULES["cosine"]

    def early(optimizer, told):
        schedule = late(optimizer, told)
        optimizer.step()
        schedule.step()
        return schedule

    monkeypatch.setitem(reference_run.SCHEDULES, "cosine", early)
    report = beside()
    assert first_red(report) == ("lr", 1) and "a step behind" in report.headline()


def test_another_warmup_is_no_shift(beside):
    report = beside(warmup=WARMUP + 1)
    assert first_red(report) == ("lr", 2) and report.reading() == "the schedule"


def test_parts_by_their_own_means(beside, monkeypatch):
    right = reference_run.loss_of
    monkeypatch.setattr(reference_run, "loss_of", lambda model, ids, labels, count: right(
        model, ids, labels, 1 if count == 1 else 2 * counted(labels)))  # fmt: skip
    report = beside()
    assert first_red(report) == ("loss", 1) and "how the parts of an accumulated step are weighted" in report.reading()


def test_batches_in_another_order(beside):
    order = [0, 1, 2, 3, 7, 5, 6, 4, *range(8, STEPS)]
    report = beside(Fed([FED.steps[n] for n in order], FED.held_out))
    assert first_red(report) in (("counted", 5), ("loss", 5)) and "norm" != first_red(report)[0]


def test_other_tokens_in_a_batch(beside):
    ids, labels = FED.steps[0][0]
    spoiled = np.where(np.arange(13) == 4, ids % 50 + 4, ids).astype(np.int32)
    report = beside(Fed([[(spoiled, labels), FED.steps[0][1]], *FED.steps[1:]], FED.held_out))
    assert first_red(report) == ("loss", 1) and "the batch" in report.reading()


def decay_everything(model, told, spared):
    return torch.optim.AdamW(model.parameters(), lr=told.lr, betas=told.betas, eps=told.eps,
                             weight_decay=told.weight_decay)  # fmt: skip


def test_decay_of_norms_and_biases(beside, monkeypatch):
    monkeypatch.setattr(reference_run, "make_optimizer", decay_everything)
    report = beside()
    quantity, step = first_red(report)
    assert quantity in ("loss", "norm") and MOVED <= step <= 6 and "the optimizer" in report.reading()


@pytest.mark.parametrize("changes", [{"eps": 1e-3}, {"betas": (0.9, 0.999)}, {"weight_decay": 0.0}, {"max_norm": None}])
def test_another_optimizer(beside, changes):
    report = beside(**changes)
    quantity, step = first_red(report)
    assert quantity in ("loss", "norm") and MOVED <= step <= 6 and "the optimizer" in report.reading()


def test_a_gradient_that_is_slightly_wrong(beside):
    def spoil(model) -> None:
        model.model.embed_tokens.weight.register_hook(lambda gradient: 1.002 * gradient)

    report = beside(spoil=spoil)
    assert first_red(report) == ("norm", 1) and "the gradients" in report.reading()
    norm = report.course("norm")
    assert FIRST["norm"] < norm.errors[0] < LIMITS["norm"], "later it would have passed"


def test_a_loss_that_is_no_number(beside, ours):
    report = dataclasses.replace(beside(), ours=dataclasses.replace(ours, loss=(*ours.loss[:-1], math.nan)))
    assert first_red(report) == ("loss", STEPS)
    assert report.course("loss").worst == STEPS and "nan" in report.text()


def test_held_out_losses_are_compared(beside, ours):
    report = dataclasses.replace(beside(), ours=dataclasses.replace(ours, held_out=(*ours.held_out[:1], 9.0)))
    assert not report.ok and report.first_red is None and "held-out" in report.headline()
    assert [line.state for line in report.properties()] == ["verified"] * 3 + ["failed"]


def test_float32_itself_is_said_to_be_it(beside):
    report = beside()
    apart = [loss + 2 * LIMITS["loss"] * (step > 5) for step, loss in enumerate(report.reference.loss)]
    far = dataclasses.replace(report.reference, loss=tuple(loss - 1e-3 for loss in apart))
    off = dataclasses.replace(report, ours=dataclasses.replace(report.ours, loss=tuple(apart)), exact=far)
    assert first_red(off) == ("loss", 7) and "float32 itself" in off.reading()
    near = dataclasses.replace(off, exact=report.reference)
    assert first_red(near) == ("loss", 7) and "the optimizer" in near.reading()


def test_what_the_process_is_given_and_answers(tmp_path, ours):
    back = read_fed(write_fed(tmp_path / "fed.npz", FED))
    for mine, its in zip([*FED.steps, FED.held_out], [*back.steps, back.held_out], strict=True):
        for (ids, labels), (same, as_well) in zip(mine, its, strict=True):
            np.testing.assert_array_equal(ids, same)
            np.testing.assert_array_equal(labels, as_well)
    assert read_recipe(write_recipe(tmp_path / "recipe.json", TOLD)) == TOLD
    odd = dataclasses.replace(ours, loss=(math.nan, *ours.loss[1:]), memory=(1.0, 2.0))
    reference, exact, notes = read_answer(write_answer(tmp_path / "answer.json", odd, None, ["a note"]))
    assert math.isnan(reference.loss[0]) and reference.loss[1:] == ours.loss[1:] and reference.memory == (1.0, 2.0)
    assert exact is None and notes == ("a note",)


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "fed.npz").write_bytes(b"PK")
    with pytest.raises(FileError, match="no batches"):
        read_fed(tmp_path / "fed.npz")
    (tmp_path / "recipe.json").write_text('{"steps": 3}')
    with pytest.raises(FileError, match="no recipe"):
        read_recipe(tmp_path / "recipe.json")


def test_threads_are_those_of_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert threads() >= 1


def test_no_decay_by_patterns_of_ours(case):
    report = read_config(case(MODEL).source)
    spared = reference_run.spared_by(("blocks.1.attn.*", "embed.weight"), report.dialect, report.model)
    names = {name.removeprefix("model.layers.1.self_attn.") for name in spared} - {"model.embed_tokens.weight"}
    assert "model.embed_tokens.weight" in spared
    assert names == {f"{part}_proj.{what}" for part in "qkvo" for what in ("weight", "bias")}
    fused = read_config(case("gpt2-tied").source)
    with pytest.raises(UsageError, match="one parameter"):
        reference_run.spared_by(("blocks.*.attn.q.weight",), fused.dialect, fused.model)


def test_a_step_in_which_nothing_counts(beside, ours):
    ids, labels = FED.steps[-1][0]
    empty = [(ids, np.full_like(labels, -100))] * 2
    report = beside(Fed([*FED.steps[:-1], empty], ()))
    assert math.isnan(report.reference.loss[-1]) and report.reference.counted[-1] == 0
    nothing = {name: (*getattr(ours, name)[:-1], math.nan) for name in ("loss", "norm", "lr")}
    mine = dataclasses.replace(ours, **nothing, counted=(*ours.counted[:-1], 0), held_out=())
    assert dataclasses.replace(report, ours=mine).ok


CONFIG = """
model: tiny-llama
start: scratch
mode: pynative
steps: 4
dropout: 0
data: {train: [text.txt], held_out: [held.txt], tokens: 16, workers: 1}
batch: {rows: 2, accumulate: 2}
optimizer: {lr: 1e-2, no_decay: [embed.weight]}
schedule: {shape: linear, warmup: 1}
monitor: {evaluate_rows: 4, tensorboard: false}
checkpoints: {every: 2, keep: 1}
"""


def test_the_command_trains_both(tmp_path, capsys):
    text = corpus().read_text(encoding="utf-8").splitlines()
    (tmp_path / "text.txt").write_text("\n".join(text[100:160]), encoding="utf-8")
    (tmp_path / "held.txt").write_text("\n".join(text[400:420]), encoding="utf-8")
    (tmp_path / "train.yaml").write_text(CONFIG, encoding="utf-8")
    words = ["train", str(tmp_path / "train.yaml"), "--out", str(tmp_path / "run"), "--beside-torch", "--json"]
    assert cli.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    kept = read_json(tmp_path / "run" / "beside.json")
    assert kept == told and told["ok"] and told["worst"]["loss"][1] <= 1e-5
    assert told["reference"]["lr"][0] == 0 and len(told["exact"]["loss"]) == 4
    assert told["reference"]["counted"] == told["ours"]["counted"] and len(told["ours"]["counted"]) == 4
    assert len(told["ours"]["held_out"]) == len(told["reference"]["held_out"]) == 2
    assert told["ours"]["held_out"][0] != told["ours"]["held_out"][1]
    assert told["speed"] > 0 and told["memory_ratio"] > 0 and told["ours"]["threads"] == told["reference"]["threads"]
    assert cli.main([*words[:-1], "--resume"]) == 2


@pytest.mark.parametrize(("changes", "match"), [
    ({"dropout": 0.1}, "dropout"), ({"precision": PrecisionConfig(level="O2")}, "float32"),
])  # fmt: skip
def test_what_could_not_be_equal_is_refused(case, changes, match):
    model = read_config(case(MODEL).source).model
    check_comparable(TrainConfig(), model)
    with pytest.raises(UsageError, match=match):
        check_comparable(dataclasses.replace(TrainConfig(), **changes), model)


def test_a_models_own_dropout_counts(case):
    model = read_config(case(MODEL).source).model
    with pytest.raises(UsageError, match="dropout"):
        check_comparable(TrainConfig(), dataclasses.replace(model, resid_pdrop=0.1))
    check_comparable(TrainConfig(dropout=0.0), dataclasses.replace(model, resid_pdrop=0.1))
