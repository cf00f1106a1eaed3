"""Held-out loss and samples: right by hand, and without a trace in the model that is trained."""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from tokenizers import Tokenizer, models, pre_tokenizers

from mindport.errors import UsageError
from mindport.model import NextTokenLoss, greedy
from mindport.training import AdamW, Constant, TrainStep
from mindport.training.data.batch import IGNORED, Batch
from mindport.training.monitor import Sampler, evaluate, evaluating
from tests.model.reference import execution

WORDS = {word: index for index, word in enumerate("to be or not that is the question whether nobler".split())}


def batch(*rows: list[int], ignored: int = 0) -> Batch:
    ids = np.array(rows, np.int32)
    labels = ids.copy()
    labels[:, : ignored + 1] = IGNORED
    return Batch(ids, labels)


def test_each_token_weighs_the_same():
    batches = [batch([1, 2, 3, 4, 5]), batch([1, 2, 3, 4, 5], ignored=3)]
    losses = {4: 2.0, 1: 7.0}
    got = evaluate(lambda b: (losses[b.counted], b.counted), batches, step=3)
    assert (got.step, got.loss, got.tokens) == (3, 3.0, 5)
    assert got.perplexity == pytest.approx(math.exp(3)) and got.seconds >= 0


def test_a_batch_in_which_nothing_counts_is_left_out():
    batches = [batch([1, 2, 3], ignored=2), batch([1, 2, 3])]
    assert evaluate(lambda b: (2.0 if b.counted else math.nan, b.counted), batches).loss == 2.0
    for nothing in (batches[:1], []):
        with pytest.raises(UsageError, match="no token of the held-out text counts"):
            evaluate(lambda b: (math.nan, 0), nothing)


def test_a_perplexity_beyond_all_floats_is_infinite():
    assert evaluate(lambda b: (1e4, b.counted), [batch([1, 2])]).perplexity == math.inf


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="to"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="module")
def trained(pair):
    """A model after a step in Graph mode, its step, and the batch."""
    with execution(ms.GRAPH_MODE):
        model = pair("llama").ours()
        step = TrainStep(model, NextTokenLoss(model), AdamW(model.trainable_params()), Constant(1e-2))
        ids = np.random.default_rng(0).integers(0, 37, (2, 11)).astype(np.int32)
        step(Tensor(ids), Tensor(ids))
        yield model, step, ids


def modes(cell) -> list[tuple[bool, str]]:
    return [(each.training, each.phase) for _, each in cell.cells_and_names()]


def test_samples_leave_the_training_as_it_was(trained, tokenizer):
    model, step, ids = trained
    before = modes(step)
    sampler = Sampler(model, tokenizer, ["to be", "whether"], 3)
    sampler(1)
    assert modes(step) == before
    loss, *_ = step(Tensor(ids), Tensor(ids))
    sampler(2)
    assert step(Tensor(ids), Tensor(ids))[0] < loss  # it goes on learning
    assert len(step.compile_cache) == 1 and len(model.compile_cache) == 1  # prompts of any length have one graph


def test_modes_come_back_one_by_one_even_after_an_error(trained):
    model, _, _ = trained
    model.blocks[0].set_train(False)
    model.blocks[1].set_train(True)
    before = modes(model)
    with pytest.raises(ValueError), evaluating(model):
        assert not any(training for training, _ in modes(model))
        raise ValueError
    assert modes(model) == before


def test_samples_are_what_greedy_decoding_gives(trained, tokenizer):
    model, _, _ = trained
    (short, long) = Sampler(model, tokenizer, ["to be or not", "to"], 3)(7)
    words = list(WORDS)
    for sample in (short, long):
        ids = greedy(model, [WORDS[word] for word in sample.prompt.split()], 3, length=7)
        assert sample.step == 7 and sample.text.split() == [words[i] for i in ids if i < len(words)]


def test_a_sample_ends_where_the_model_ends_its_text(trained, tokenizer, monkeypatch):
    model, _, _ = trained
    monkeypatch.setattr("mindport.model.greedy", lambda model, ids, steps, length: [2, 3, 9, 4])
    for ends, text in ((9, " or not"), ((3, 9), " or"), (None, " or not nobler that")):
        monkeypatch.setattr(model, "config", _ending(model.config, ends))
        assert Sampler(model, tokenizer, ["to be"], 4)(1)[0].text == text


def _ending(config, ends):
    from dataclasses import replace

    return replace(config, eos_token_id=ends)


@pytest.mark.parametrize(
    ("prompts", "tokens", "message"),
    [([""], 3, "no tokens"), (["to"], 10_000, "longer than the model's positions")],
)
def test_prompts_that_cannot_be_continued_are_refused_at_once(trained, tokenizer, prompts, tokens, message):
    with pytest.raises(UsageError, match=message):
        Sampler(trained[0], tokenizer, prompts, tokens)


def test_another_tokenizer_is_refused(trained, tmp_path):
    Tokenizer(models.WordLevel({"to": 37}, unk_token="to")).save(str(tmp_path / "t.json"))
    with pytest.raises(UsageError, match="ids that the model does not know"):
        Sampler(trained[0], tmp_path / "t.json", ["to"], 3)
