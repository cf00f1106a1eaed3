"""A checkpoint is a model: it loads, goes back to Hugging Face, computes the same there, and is verified so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mindport import cli
from mindport.config import read_config
from mindport.errors import FileError
from mindport.parity import verify
from mindport.parity.identity import identity, same_model
from mindport.results import plain
from mindport.sources import resolve
from mindport.training.checkpoint import About, Checkpoints, Snapshot
from mindport.training.config import TrainConfig
from mindport.weights import convert, load
from mindport.weights.safetensors_io import read_header

MODELS = ("tiny-gpt2", "tiny-llama")  # float32 and tied; bfloat16 and not
PROMPT = [5, 11, 7, 3]


@pytest.fixture(scope="module", params=MODELS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(the Hugging Face directory, a checkpoint of a model that has moved away from it)."""
    place, source = tmp_path_factory.mktemp("trained"), Path(resolve(request.param))
    convert(source, place / "ms", progress=False)
    random = np.random.default_rng(0)
    weights = {name: x.astype(np.float32) for name, x in load(place / "ms").items()}
    weights = {name: x + random.standard_normal(x.shape, np.float32) * 0.02 for name, x in weights.items()}
    about = About(plain(TrainConfig()), "", "", {})
    with Checkpoints(place / "checkpoints", place / "ms") as checkpoints:
        path = checkpoints.save(Snapshot(3, weights, {"adam.step": np.array(3, np.int32)}, about)).path
    return source, path


@pytest.fixture(scope="module")
def exported(trained: tuple[Path, Path]) -> Path:
    """Its export, by the command line."""
    target = trained[1].parents[1] / "hf"
    assert cli.main(["convert", str(trained[1]), str(target), "--to", "huggingface"]) == 0
    return target


def test_transformers_computes_and_writes_the_same(trained: tuple[Path, Path], exported: Path) -> None:
    import torch
    import transformers
    from mindspore import Tensor

    from mindport.model import load_model
    from mindport.model.generate import greedy

    theirs = transformers.AutoModelForCausalLM.from_pretrained(exported).eval()
    ours = load_model(trained[1])
    assert theirs.dtype == torch.float32
    ids = np.random.default_rng(1).integers(0, theirs.config.vocab_size, (2, 9)).astype(np.int32)
    with torch.no_grad():
        right = theirs(torch.tensor(ids, dtype=torch.long)).logits.numpy()
        text = theirs.generate(torch.tensor([PROMPT]), max_new_tokens=6, min_new_tokens=6, do_sample=False)
    np.testing.assert_allclose(ours(Tensor(ids)).asnumpy(), right, rtol=0, atol=1e-4 * np.abs(right).max())
    assert greedy(ours, PROMPT, 6) == text[0, len(PROMPT) :].tolist()
    tied = theirs.config.tie_word_embeddings
    assert tied == (theirs.get_output_embeddings().weight is theirs.get_input_embeddings().weight)


def test_the_tokenizer_goes_along_and_what_a_resume_needs_does_not(trained: tuple[Path, Path], exported: Path) -> None:
    names = {path.name for path in exported.iterdir()}
    assert (exported / "tokenizer.json").read_bytes() == (trained[0] / "tokenizer.json").read_bytes()
    assert not [name for name in names if name.startswith("training")]
    assert (exported / "config.json").read_bytes() == (trained[1] / "config.json").read_bytes()


def test_in_the_precision_of_the_source_the_files_have_its_headers(trained: tuple[Path, Path], tmp_path: Path) -> None:
    source, path = trained
    dtype = {"F32": "float32", "BF16": "bfloat16"}
    held = dtype[next(iter(read_header(source / "model.safetensors").entries.values())).dtype]
    found = convert(path, tmp_path / "hf", to="huggingface", dtype=held, progress=False)
    assert any("after 3 steps of training" in note for note in found.notes)
    after, before = (read_header(place / "model.safetensors") for place in (tmp_path / "hf", source))
    assert after.text == before.text


def test_its_reference_is_its_export(trained: tuple[Path, Path], exported: Path) -> None:
    source, path = trained
    same_model(identity(exported), path)
    assert load(path).config == read_config(exported).model
    with pytest.raises(FileError, match=r"trained since(.|\n)*3 steps(.|\n)*--to huggingface"):
        same_model(identity(source), path)
    with pytest.raises(FileError, match="trained since"):  # at once: the reference takes minutes
        verify(path)
