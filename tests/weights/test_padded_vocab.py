"""Rows beyond the vocabulary: declared they go across and come back, undeclared or half they stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.numpy import load_file

from mindport import cli
from mindport.config import read_config
from mindport.errors import ConfigError, MappingError, UsageError
from mindport.mindformers import export
from mindport.weights import convert, load, verify_round_trip
from tests.weights.models import FAMILIES, make, save, tensors_of

QUIET: dict[str, Any] = {"progress": False}
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def _padded(directory: Path, names: tuple[str, ...] = (EMBED, HEAD), rows: int = 64, **changes: Any) -> Path:
    """A llama of 41 tokens with other rows in some of its tensors."""
    raw = {**FAMILIES["llama"], "hidden_size": 24, **changes}  # heads that fill it: every target takes them
    tensors = tensors_of(raw, directory)
    more = np.random.default_rng(1).standard_normal((rows, 24)).astype("f4")
    return save(directory, raw, {n: np.concatenate([x, more])[:rows] if n in names else x for n, x in tensors.items()})


@pytest.mark.parametrize("to", ["mindspore", "mindformers-llama", "mindformers-mcore"])
@pytest.mark.parametrize("dtype", ["keep", "bfloat16"])
def test_there_and_back(to: str, dtype: str, tmp_path: Path) -> None:
    source = _padded(tmp_path / "hf")
    report = convert(source, tmp_path / "ms", to=to, dtype=dtype, padded_vocab=64, **QUIET)
    assert report.ok and any("41 tokens in 64 rows: the last 23 are padding" in note for note in report.notes)
    model = json.loads((tmp_path / "ms/mindport.json").read_text())["model"]
    assert (model["vocab_size"], model["padded_vocab"]) == (41, 64)
    if dtype == "keep":
        assert verify_round_trip(source, tmp_path / "ms", **QUIET).identical == ("model.safetensors",)
        convert(tmp_path / "ms", tmp_path / "back", to="huggingface", **QUIET)
        assert (tmp_path / "back/config.json").read_bytes() == (source / "config.json").read_bytes()


def test_the_values_of_all_rows_go_across(tmp_path: Path) -> None:
    source = _padded(tmp_path / "hf")
    convert(source, tmp_path / "ms", padded_vocab=64, **QUIET)
    weights, before = load(tmp_path / "ms"), load_file(source / "model.safetensors")
    assert np.array_equal(weights["embed.weight"], before[EMBED]) and weights["embed.weight"].shape == (64, 24)
    assert np.array_equal(weights["head.weight"], before[HEAD])


def test_from_one_target_to_another(tmp_path: Path) -> None:
    source = _padded(tmp_path / "hf")
    convert(source, tmp_path / "ms", padded_vocab=64, **QUIET)
    convert(tmp_path / "ms", tmp_path / "mcore", to="mindformers-mcore", **QUIET)
    assert json.loads((tmp_path / "mcore/config.json").read_text())["vocab_size"] == 64
    convert(tmp_path / "mcore", tmp_path / "back", to="huggingface", **QUIET)
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "back" / name).read_bytes() == (source / name).read_bytes()


@pytest.mark.parametrize("schema", ["graph", "pynative"])
def test_mindspore_transformers_is_told_all_rows(schema: str, tmp_path: Path) -> None:
    """Its networks know one vocabulary: a legacy one the YAML's, another the YAML's (PyNative) or config.json's."""
    qwen3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
    raw = {key: x for key, x in (FAMILIES["llama"] | qwen3).items() if key != "mlp_bias"}
    save(tmp_path / "hf", raw, tensors_of({**raw, "vocab_size": 64}, tmp_path / "hf"))
    convert(tmp_path / "hf", tmp_path / "mcore", to="mindformers-mcore", padded_vocab=64, **QUIET)
    export(tmp_path / "mcore", tmp_path / "mcore.yaml", "dp1,tp2,pp1,sp", schema)
    model = yaml.safe_load((tmp_path / "mcore.yaml").read_text())["model"]
    assert json.loads((tmp_path / "mcore/config.json").read_text())["vocab_size"] == 64
    assert model.get("vocab_size") == (64 if schema == "pynative" else None)
    convert(_padded(tmp_path / "llama"), tmp_path / "legacy", to="mindformers-llama", padded_vocab=64, **QUIET)
    export(tmp_path / "legacy", tmp_path / "legacy.yaml")
    assert yaml.safe_load((tmp_path / "legacy.yaml").read_text())["model"]["model_config"]["vocab_size"] == 64


BOTH = (EMBED, HEAD)
REFUSED = {
    "not declared": (BOTH, None, ConfigError, "64 rows, expected vocab_size 41; .*--padded-vocab 64"),
    "another number": (BOTH, 128, ConfigError, "64 rows, expected padded_vocab 128; .*--padded-vocab 64"),
    "fewer than tokens": (BOTH, 40, ConfigError, "padded_vocab 40, expected at least vocab_size 41"),
    "only the head": ((HEAD,), None, MappingError, "lm_head.weight has 64 rows(.|\n)*the same rows"),
    "only the head, declared": ((HEAD,), 64, ConfigError, "41 rows, expected padded_vocab 64; it is not padded"),
    "only the embedding": ((EMBED,), 64, MappingError, "lm_head.weight has 41 rows(.|\n)*the same rows"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_is_not_declared_or_not_so_is_refused(fault: str, tmp_path: Path) -> None:
    names, declared, kind, says = REFUSED[fault]
    with pytest.raises(kind, match=says):
        convert(_padded(tmp_path / "hf", names), tmp_path / "ms", padded_vocab=declared, **QUIET)
    assert not (tmp_path / "ms").exists()


@pytest.mark.parametrize(
    ("names", "declared", "says"),
    [
        (BOTH, None, "embed_tokens.weight has 64 rows, .*vocab_size says 41: .*declare it: --padded-vocab 64"),
        (BOTH, 128, "--padded-vocab says 128: .*declare it: --padded-vocab 64"),
        ((), 64, "--padded-vocab says 64: they are not padded; leave out --padded-vocab"),
        ((EMBED,), None, "embed_tokens.weight has 64 rows, .*the same rows"),
    ],
)
def test_a_bin_is_held_to_it_too(names: tuple[str, ...], declared: int | None, says: str, tmp_path: Path) -> None:
    """Its rows are not known before the tensors are."""
    source = _padded(tmp_path / "hf", names)
    tensors = {name: torch.from_numpy(x) for name, x in load_file(source / "model.safetensors").items()}
    torch.save(tensors, source / "pytorch_model.bin")
    (source / "model.safetensors").unlink()
    with pytest.raises(MappingError, match=says):
        convert(source, tmp_path / "ms", padded_vocab=declared, **QUIET)
    if names == BOTH:
        assert convert(source, tmp_path / "ms", padded_vocab=64, **QUIET).ok


def test_a_tied_embedding_and_its_copy(tmp_path: Path) -> None:
    source = _padded(tmp_path / "hf", tie_word_embeddings=True)
    tensors = load_file(source / "model.safetensors")
    save(source, json.loads((source / "config.json").read_text()), {**tensors, HEAD: tensors[EMBED]})
    assert convert(source, tmp_path / "ms", padded_vocab=64, **QUIET).accounting.tied == 1
    assert verify_round_trip(source, tmp_path / "ms", **QUIET).identical == ("model.safetensors",)


def test_it_is_declared_once(tmp_path: Path) -> None:
    convert(_padded(tmp_path / "hf"), tmp_path / "ms", padded_vocab=64, **QUIET)
    for to in ("huggingface", "mindformers-llama"):
        with pytest.raises(UsageError, match="its manifest knows it"):
            convert(tmp_path / "ms", tmp_path / "back", to=to, padded_vocab=64, **QUIET)


def test_a_manifest_from_before_has_no_padding(tmp_path: Path) -> None:
    convert(make(tmp_path / "hf"), tmp_path / "ms", **QUIET)
    manifest = json.loads((tmp_path / "ms/mindport.json").read_text())
    del manifest["model"]["padded_vocab"]
    (tmp_path / "ms/mindport.json").write_text(json.dumps(manifest))
    assert load(tmp_path / "ms")["embed.weight"].shape == (41, 20)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(_padded(tmp_path / "hf"))
    assert cli.main(["convert", source, str(tmp_path / "ms")]) == 2
    assert "--padded-vocab 64" in capsys.readouterr().err
    assert cli.main(["config", source]) == 1
    assert cli.main(["config", source, "--padded-vocab", "64"]) == 0
    assert cli.main(["convert", source, str(tmp_path / "ms"), "--padded-vocab", "64"]) == 0
    assert read_config(source, padded_vocab=64).model is not None
