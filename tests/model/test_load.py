"""A converted directory → a model that computes what transformers computes."""

from __future__ import annotations

import copy
import subprocess
import sys

import mindspore as ms
import ml_dtypes
import numpy as np
import pytest
import torch
from mindspore import Tensor

from mindport.errors import BackendError, FileError, MappingError, UsageError
from mindport.model import Precision, load_model
from mindport.model.load import source_of
from mindport.weights import convert
from tests.model.reference import token_ids


@pytest.fixture(scope="module")
def converted(pair, tmp_path_factory):
    """`converted("llama", torch_dtype)`: a MindPort directory of that model."""

    def make(name, dtype=None, **options):
        source, target = tmp_path_factory.mktemp("hf"), tmp_path_factory.mktemp("out") / "model"
        model = pair(name).torch if dtype is None else copy.deepcopy(pair(name).torch).to(getattr(torch, dtype))
        model.save_pretrained(source)
        convert(source, target, progress=False, **options)
        return target

    return make


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama tied mqa"])
def test_a_loaded_model_equals_transformers(pair, converted, name):
    logits, expected = load_model(converted(name))(Tensor(token_ids(9))).asnumpy(), pair(name).logits(token_ids(9))
    assert np.abs(logits - expected).max() <= 1e-5 * max(1, np.abs(expected).max())


def test_a_checkpoint_loads_as_safetensors_do(converted):
    ids = Tensor(token_ids(9))
    models = [load_model(converted("llama", file_format=kind)) for kind in ("safetensors", "ckpt")]
    np.testing.assert_array_equal(models[0](ids).asnumpy(), models[1](ids).asnumpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_files_are_widened_exactly(pair, converted, dtype):
    model = load_model(converted("llama", dtype=dtype))
    narrow = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    for parameter in model.get_parameters():
        assert parameter.dtype == ms.float32
        expected = pair("llama").values[parameter.name].astype(narrow).astype(np.float32)
        np.testing.assert_array_equal(parameter.asnumpy(), expected)


def test_a_model_to_train_takes_dropout_seed_and_precision(converted):
    model = load_model(converted("llama"), precision=Precision("O1"), dropout=0.3, seed=4)
    assert {weight.dtype for weight in model.get_parameters()} == {ms.float32}
    assert (model.config.attn_pdrop, model.counter.state.asnumpy().tolist()) == (0.3, [4, 0])
    assert model.head.narrow == ms.float16


def test_the_first_layers_alone(pair, converted):
    model = load_model(converted("llama"), layers=2)
    assert len(model.blocks) == model.config.num_hidden_layers == 2
    np.testing.assert_array_equal(
        model.blocks[1].mlp.up.weight.asnumpy(), pair("llama").values["blocks.1.mlp.up.weight"]
    )


@pytest.mark.parametrize("layers", [0, 4])
def test_a_number_of_layers_that_is_not_there_stops(converted, layers):
    with pytest.raises(UsageError, match="no such number of layers"):
        load_model(converted("llama"), layers=layers)


def test_the_mode_is_set_on_demand(converted):
    try:
        load_model(converted("llama"), mode="graph")
        assert ms.get_context("mode") == ms.GRAPH_MODE
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    with pytest.raises(UsageError, match="no such execution mode"):
        load_model(converted("llama"), mode="eager")


def test_bfloat16_on_a_cpu_stops(converted):
    with pytest.raises(BackendError, match="bfloat16"):
        load_model(converted("llama"), dtype="bfloat16")
    with pytest.raises(UsageError, match="no such dtype"):
        load_model(converted("llama"), dtype="int8")


def test_a_directory_that_was_not_converted_stops(tmp_path):
    with pytest.raises(FileError):
        load_model(tmp_path)


def test_missing_and_foreign_weights_stop(pair):
    it = pair("llama")
    less = {name: value for name, value in it.values.items() if name != "norm.weight"}
    with pytest.raises(MappingError, match="without a weight") as error:
        source_of(less, it.config)
    assert "norm.weight" in str(error.value)
    with pytest.raises(MappingError, match=r"no parameter for[\s\S]*blocks\.3\.extra"):
        source_of({**it.values, "blocks.3.extra": np.zeros(1)}, it.config)


def test_loading_makes_one_copy(tmp_path):
    """In a process of its own: the peak is the model's 180 MB, the largest array again, and not twice the model."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(tmp_path)], capture_output=True, text=True, check=True)
    model, peak = map(float, done.stdout.split()[-2:])
    assert model > 100
    assert peak < 1.5 * model


PEAK = """
import resource
import numpy as np, mindspore as ms
from mindport.config import ModelConfig, Rope
from mindport.config.schema import shapes
from mindport.model import GPT
config = ModelConfig(model_type="llama", vocab_size=1000, hidden_size=512, num_hidden_layers=14, num_attention_heads=8,
    num_key_value_heads=2, head_dim=64, intermediate_size=1536, max_position_embeddings=64, hidden_act="silu",
    gated_mlp=True, norm="rms", norm_eps=1e-5, position="rope", rope=Rope(rope_theta=1e4), qkv_bias=False,
    attention_out_bias=False, mlp_bias=False, tie_word_embeddings=True)
ms.Tensor(np.zeros(1, np.float32)).asnumpy()
rss = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = rss()
model = GPT(config, lambda name, shape: np.full(shape, 0.5, np.float32))
print(sum(np.prod(s) for s in shapes(config).values()) * 4 / 2**20, rss() - before)
"""
