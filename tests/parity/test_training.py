"""The same training in torch and in MindSpore: right models climb every rung, and a fault is red where it belongs."""

from __future__ import annotations

import copy
import dataclasses
import json
import shutil
from collections import Counter

import numpy as np
import pytest

from mindport.config import DIALECTS, read_config, to_dict
from mindport.config.schema import shapes
from mindport.errors import BackendError, FileError, UsageError
from mindport.model import NextTokenLoss
from mindport.parity import compare_training, verify
from mindport.parity.ours_training import observe_training, training_step
from mindport.parity.recipe import (
    IGNORED,
    SNAPSHOTS,
    batches,
    entries,
    looked_at,
    own_labels,
    read_recipe,
    real_tokens,
    recipe_for,
    usual_steps,
)
from mindport.parity.trace import Trace, write_trace
from mindport.training import Cosine, TrainStep

LONG = ("gpt2-tied", "llama-tied-yarn-bias")
FAMILIES = ("gpt_neox", "mistral", "qwen2", "qwen3", "phi3", "gemma")
RUNGS = ("loss of padded batches agrees at step 0", "gradients of the whole model agree", "learning rate agrees",
         "one optimizer step agrees", "3 optimizer steps agree", "norm of the gradients agrees",
         "loss agrees")  # fmt: skip


def test_every_family_is_trained_here(case):
    families = {read_config(case(name).source).model.model_type for name in LONG + FAMILIES}
    assert families == DIALECTS.keys()


@pytest.mark.parametrize(("name", "steps"), [*((name, 50) for name in LONG), *((name, 3) for name in FAMILIES)])
def test_a_right_model_trains_like_torch(trained, name, steps):
    found = trained(name, steps)
    report = compare_training(found.reference, found.ours)
    assert report.ok, report.text()
    assert tuple(rung.name for rung in report.rungs) == RUNGS
    assert report.loss_difference <= 1e-5
    assert {row.parameter for row in report.values} == set(shapes(read_config(found.case.source).model))
    assert {(row.mode, row.kind, row.step) for row in report.values} == {
        (mode, kind, step) for mode in ("Graph", "PyNative")
        for kind, step in [("grad", 0), *((kind, n) for kind in ("m", "v", "weight") for n in SNAPSHOTS)]
    }  # fmt: skip
    taken = Counter(row.mode for row in report.curve if row.quantity == "loss")
    assert taken == {"PyNative": 3, "Graph": steps} and len(report.course("loss")) == steps
    json.dumps(report.as_dict(), allow_nan=False)


@pytest.mark.parametrize("name", LONG)
def test_the_recipe_lets_nothing_hide(trained, name):
    reference = trained(name, 50).reference
    told = read_recipe(reference.about)
    assert told.weight_decay > 0 and told.warmup_steps == 5 and told.total_steps == 50
    assert 0 < (reference["norm"] > told.max_norm).sum() < 50, "clipping binds in some steps"
    assert reference["lr"][0] == 0 and reference["lr"][told.warmup_steps] == np.float32(told.lr)
    assert set(told.no_decay) == {
        name for name, shape in shapes(read_config(trained(name, 50).case.source).model).items() if len(shape) == 1
    }
    assert reference["loss"][-1] < reference["loss"][0], "it learns"


class ScheduleAhead(Cosine):
    """A step ahead: the first one moves the weights already."""

    def construct(self, step):
        return super().construct(step + 1)


def wrong_eps(model, told):
    return training_step(model, dataclasses.replace(told, eps=1e-5))


def no_decay_at_all(model, told):
    return training_step(model, dataclasses.replace(told, weight_decay=0.0))


def decay_for_all(model, told):
    return training_step(model, dataclasses.replace(told, no_decay=()))


def never_clipped(model, told):
    return training_step(model, dataclasses.replace(told, max_norm=1e9))


def a_step_ahead(model, told):
    right = training_step(model, told)
    schedule = ScheduleAhead(told.lr, total=told.total_steps, warmup=told.warmup_steps)
    return TrainStep(model, NextTokenLoss(model), right.optimizer, schedule, told.max_norm)


def padding_counts(model, told):
    """The label of padding is no longer ignored."""

    class Careless(NextTokenLoss):
        def construct(self, ids, labels):
            return super().construct(ids, ids)

    right = training_step(model, told)
    return TrainStep(model, Careless(model), right.optimizer, right.schedule, told.max_norm)


FAULTS = {
    padding_counts: "loss of padded batches agrees at step 0",
    a_step_ahead: "learning rate agrees",
    never_clipped: "one optimizer step agrees",
    wrong_eps: "3 optimizer steps agree",
    no_decay_at_all: "3 optimizer steps agree",
    decay_for_all: "3 optimizer steps agree",
}


def planted(found, fault):
    """A graph of its own would cost more than it shows."""
    return observe_training(found.case.converted, found.reference, build=fault, only="PyNative")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_red_where_it_belongs(trained, fault):
    """And nothing below it is: the first red rung says which part to look at."""
    found = trained("gpt2-tied", 3, "PyNative")
    report = compare_training(found.reference, planted(found, fault))
    assert not report.ok
    assert report.first_red is not None and report.first_red.name == FAULTS[fault], report.text()
    assert report.first_red.name in report.headline()


def test_only_the_parameters_that_decay_wrongly_are_named(trained):
    found = trained("gpt2-tied", 3, "PyNative")
    report = compare_training(found.reference, planted(found, decay_for_all))
    red = {row.parameter for row in report.values if not row.ok and row.kind == "weight"}
    assert red and red <= set(read_recipe(found.reference.about).no_decay)


def changed(trace: Trace, name: str, factor: float) -> Trace:
    new = copy.copy(trace)
    new.arrays = {**trace.arrays, name: trace[name] * np.float32(factor)}
    return new


@pytest.mark.parametrize(("array", "rung", "says"), [
    ("pynative/loss", 0, "loss of step 0, PyNative"),
    ("grad/blocks.1.attn.q.weight", 1, "gradient of blocks.1.attn.q.weight, Graph"),
    ("pynative/grad/norm.bias", 1, "gradient of norm.bias, PyNative"),
    ("lr", 2, "learning rate of step 5, Graph"),
    ("m/1/blocks.0.norm1.weight", 3, "m of blocks.0.norm1.weight, Graph"),
    ("v/1/embed.weight", 3, "√v of embed.weight, Graph"),
    ("pynative/weight/3/position.weight", 4, "weight of position.weight, PyNative"),
    ("norm", 5, "norm of step"),
])  # fmt: skip
def test_a_value_that_is_off_is_named(trained, array, rung, says):
    found = trained("gpt2-tied", 50)
    report = compare_training(found.reference, changed(found.ours, array, 1 + 1e-3))
    assert [each.name for each in report.rungs if not each.ok] == [RUNGS[rung], *(["loss agrees"] * (rung == 0))]
    assert report.first_red.worst.startswith(says)


def test_what_is_not_a_number_is_red(trained):
    found = trained("gpt2-tied", 50)
    for name in ("loss", "norm", "lr", "grad/norm.weight", "v/3/norm.weight", "weight/3/norm.weight"):
        assert not compare_training(found.reference, changed(found.ours, name, np.nan)).ok, name


def test_a_trace_that_lacks_an_array_is_refused(trained):
    found = trained("gpt2-tied", 50)
    ours = copy.copy(found.ours)
    ours.arrays = {name: array for name, array in ours.arrays.items() if name != "m/1/norm.weight"}
    with pytest.raises(FileError, match=r"no such array(.|\n)*m/1/norm.weight"):
        compare_training(found.reference, ours)


def config(case, **changes):
    return dataclasses.replace(read_config(case("gpt2-tied").source).model, **changes)


def test_only_real_tokens_have_labels(case):
    ids, labels = batches(np.arange(1, 50), config(case), 4)
    real, lengths = real_tokens(labels), real_tokens(labels).sum(-1)
    assert len(np.unique(lengths)) > 1 and (ids[~real] == 0).all() and (labels[~real] == IGNORED).all()
    assert ((labels != IGNORED).sum(-1) == lengths - 1).all(), "the last token has nothing to foretell"
    before, after = labels[..., :-1], ids[..., 1:]
    assert (before[before != IGNORED] == after[before != IGNORED]).all()
    assert (own_labels(labels)[..., 1:][real[..., 1:]] == ids[..., 1:][real[..., 1:]]).all(), (
        "each text token is its own"
    )


@pytest.mark.parametrize(("given", "padding"), [(7, 7), (-1, 52)])
def test_the_padding_token_is_never_text(case, given, padding):
    """The reference's embedding has no gradient for it."""
    ids, labels = batches(np.arange(53), config(case, pad_token_id=given), 4)
    assert (ids[~real_tokens(labels)] == padding).all() and (ids[real_tokens(labels)] != padding).all()


def test_a_short_context_is_kept_and_none_at_all_is_refused(case):
    assert batches(np.arange(50), config(case, max_position_embeddings=5), 2)[0].shape[-1] == 5
    with pytest.raises(UsageError, match="without context"):
        batches(np.arange(50), config(case, max_position_embeddings=1), 2)


def test_large_parameters_are_looked_at_in_the_same_places_each_time():
    big = np.arange(1000.0).reshape(10, 100)
    found = looked_at("embed.weight", big, 64)
    assert len(np.unique(found)) == 64 and (found == looked_at("embed.weight", big, 64)).all()
    assert (found != looked_at("head.weight", big, 64)).any()
    whole = looked_at("embed.weight", big, 1000)
    assert whole.shape == big.shape and whole is not big


def test_a_large_model_is_looked_at_in_fewer_places(case):
    few, many = config(case), config(case).with_layers(300)
    assert entries(few) > entries(many) and entries(many) * len(shapes(many)) <= 2**21


def test_a_short_training_still_has_a_schedule(case):
    told = recipe_for(config(case), 1, 3.0)
    assert (told.warmup_steps, told.total_steps) == (1, 10) and 0 < told.max_norm < 3.0
    assert [usual_steps(config(case, hidden_size=size)) for size in (24, 240_000)] == [50, 10]


def test_a_reference_of_no_steps_and_one_of_nan_are_refused(case, tmp_path):
    from safetensors.numpy import load_file, save_file

    from mindport.parity.reference_training import record

    with pytest.raises(UsageError, match="a step at least"):
        record(case("gpt2-tied").source, tmp_path / "trace", steps=0)
    broken = shutil.copytree(case("gpt2-tied").source, tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    tensors["transformer.h.1.ln_1.weight"][0] = np.nan
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackendError, match="NaN or infinities"):
        record(broken, tmp_path / "trace", steps=1)


@pytest.mark.parametrize("name", [*LONG, "mistral"])
def test_padding_on_the_right_changes_no_real_token(case, name):
    """As transformers with its attention mask has it; nor does a window of nothing but padding make a NaN."""
    import torch
    from mindspore import Tensor

    from mindport.model import load_model
    from mindport.parity.reference import load

    report = read_config(case(name).source)
    ids, labels = (x[0] for x in batches(np.arange(3, 900) * 7 % 37, report.model, 1))
    real = real_tokens(labels)
    with torch.no_grad():
        model = load(case(name).source, report.dialect, report.model)
        expected = model(torch.from_numpy(ids).long(), attention_mask=torch.from_numpy(real).long()).logits.numpy()
    network = load_model(case(name).converted)
    got = network(Tensor(ids)).asnumpy()
    assert np.isfinite(got).all() and not real.all()
    assert np.abs(got - expected)[real].max() <= 1e-4
    for row, alone in zip(ids, real, strict=True):
        short = network(Tensor(row[None, alone])).asnumpy()[0]
        assert np.abs(got[(ids == row).all(-1)][0][alone] - short).max() <= 1e-4


def test_verify_climbs_the_whole_ladder(case, capfd):
    found = verify(case("gpt2-tied").source, layers=1, steps=2)
    assert found.ok and found.training is not None and found.training.steps == 2, found.text()
    assert {row.parameter for row in found.training.values} == set(shapes(config(case).with_layers(1)))
    said = capfd.readouterr().err
    assert "reference: 2 steps in float64" in said and "verify: Graph, training, 2 steps" in said
    names = [line.name for line in found.properties() if line.name.startswith("training: ")]
    assert names == [f"training: {name}" for name in RUNGS if name != "3 optimizer steps agree"]
    assert "2 steps of training go the way of torch" in found.headline()
    assert json.loads(json.dumps(found.as_dict()))["training"]["ok"] is True


def test_a_training_that_goes_wrong_is_the_verdict(trained, monkeypatch, tmp_path):
    """Every module, logit and gradient right: without the steps nobody would know."""
    from mindport.parity import ours_training

    found = trained("gpt2-tied", 3, "PyNative")
    saved = shutil.copytree(found.case.trace, tmp_path / "trace")
    write_trace(found.reference, saved / "training")
    monkeypatch.setattr(ours_training, "observe_training", lambda *given, say: planted(found, wrong_eps))
    report = verify(found.case.source, found.case.converted, saved, progress=False, steps=3)
    assert not report.ok and "training first goes wrong at: 3 optimizer steps" in report.headline()
    assert report.first_divergence is None and report.logits.ok and report.greedy_equal and report.inventory.ok
    assert all(row.ok for row in report.gradients)


def test_a_saved_trace_needs_a_training_of_as_many_steps_and_layers(trained, case, tmp_path):
    found = trained("gpt2-tied", 3, "PyNative")
    saved = shutil.copytree(found.case.trace, tmp_path / "trace")
    with pytest.raises(FileError, match=r"no such trace(.|\n)*reference_training .* --out TRACE/training --steps N"):
        verify(found.case.source, found.case.converted, saved, progress=False, steps=3)
    write_trace(found.reference, saved / "training")
    with pytest.raises(UsageError, match=r"another number of steps(.|\n)*ask for 3"):
        verify(found.case.source, found.case.converted, saved, progress=False, steps=4)
    about = {**found.reference.about, "model": to_dict(config(case).with_layers(2))}
    write_trace(Trace(about, found.reference.arrays, found.reference.missed), saved / "training", overwrite=True)
    with pytest.raises(UsageError, match=r"another model than the pass(.|\n)*--layers"):
        verify(found.case.source, found.case.converted, saved, progress=False, steps=3)


@pytest.mark.parametrize("steps", [-1, 10**12])
def test_less_than_no_steps_and_more_than_memory_holds(case, steps):
    with pytest.raises(UsageError, match="so many steps"):
        verify(case("gpt2-tied").source, steps=steps)


def test_a_single_step_says_that_no_weight_has_moved(trained):
    """A warm-up begins at 0: neither decay nor ε nor the rate shows, and the answer must not sound as if they did."""
    found = trained("gpt2-tied", 3, "PyNative")
    curves = ("loss", "norm", "lr")

    def first(trace: Trace) -> Trace:
        new = copy.copy(trace)
        new.arrays = {name: x[:1] if name in curves else x for name, x in trace.arrays.items()}
        new.missed = {name: x[:1] if name in curves else x for name, x in trace.missed.items()}
        return new

    report = compare_training(first(found.reference), first(found.ours))
    assert report.ok and "no weight moved" in report.headline()
    assert "no weight moved" not in compare_training(found.reference, found.ours).headline()
    how = {rung.name: rung.how for rung in compare_training(found.reference, found.ours).rungs}
    assert "moves no weight" in how["one optimizer step agrees"] and "moves" not in how["3 optimizer steps agree"]
