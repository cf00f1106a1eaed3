"""resolve, available, corpus and the cache's place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mindport.errors import FileError
from mindport.sources import available, cache_directory, corpus, provenance, resolve


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDPORT_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["tiny-gpt2", "tiny-llama"])
def test_bundled_models_by_name(name: str) -> None:
    assert (resolve(name) / "config.json").is_file()


def test_a_path_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve(tmp_path) == tmp_path
    assert resolve(str(tmp_path)) == tmp_path
    (tmp_path / "tiny-gpt2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve("./tiny-gpt2") == Path("tiny-gpt2")
    assert resolve("tiny-gpt2") != Path("tiny-gpt2")  # a name is a name, wherever one stands


def test_not_fetched_yet() -> None:
    with pytest.raises(FileError, match="not on this machine") as caught:
        resolve("smollm2")
    assert caught.value.do == "mindport fetch smollm2"


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(FileError, match="no such model") as caught:
        resolve("no/where")
    assert {"tiny-gpt2", "tiny-llama", "smollm2"} <= set(str(caught.value).replace(",", " ").split())


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(FileError, match="is a file"):
        resolve(tmp_path / "model.safetensors")


def test_available() -> None:
    inventory = available()
    assert inventory.ok
    ready = {item.name: item.ready for item in inventory.items}
    assert ready == {"tiny-gpt2": True, "tiny-llama": True, "corpus": True, "questions": True,
                     "smollm2": False, "shakespeare": False}  # fmt: skip
    assert "mindport fetch smollm2" in inventory.text()
    assert inventory.as_dict()["items"][0]["name"] == "tiny-gpt2"


def test_corpus_is_small() -> None:
    assert 100_000 < corpus().stat().st_size < 500_000


def test_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("MINDPORT_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "mindport"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "mindport"


def test_a_directory_says_where_its_model_is_from(tmp_path: Path) -> None:
    note = tmp_path / "mindport-source.json"
    assert provenance(tmp_path) == ""
    note.write_text('{"what": "A model", "note": "Dequantised."}')
    assert provenance(tmp_path) == "A model. Dequantised."
    note.write_text('{"note": "Dequantised."}')
    assert provenance(tmp_path) == "Dequantised."
    note.write_text("[]")
    with pytest.raises(FileError, match=r"is damaged(.|\n)*fetch the model again"):
        provenance(tmp_path)


def test_import_is_light() -> None:
    heavy = "{'mindspore', 'torch', 'transformers', 'numpy', 'gguf', 'tokenizers', 'safetensors'}"
    code = f"import sys, mindport.sources; print(*({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == ""
