"""Names and paths: what ships in `data/`, what was fetched, and what is the user's own."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import FileError, UsageError
from mindport.files import read_json
from mindport.places import rooted
from mindport.results import Result
from mindport.sources.cache import cache_directory
from mindport.sources.catalog import CATALOG
from mindport.sources.fetch import PROVENANCE, result_path
from mindport.tables import Table

DATA = Path(__file__).parents[3] / "data"
BUNDLED = {
    "tiny-gpt2": "a GPT-2 of 0.4 M parameters, self-trained, fp32, tied",
    "tiny-llama": "a LLaMA of 0.7 M parameters with grouped queries, self-trained, bf16, untied",
}

TEXTS = {
    "corpus": ("four works of Shakespeare, 469 kB", "shakespeare.txt"),
    "questions": ("240 short conversations to try fine-tuning on, 50 kB", "questions.jsonl"),
}

BY_SIZE = {"smoke": "tiny-llama", "small": "smollm2"}  # the model when none is named


@dataclass(frozen=True)
class Item:
    """One thing that has a name: a model directory or a text; `ready` when it is on this machine."""

    name: str
    kind: str
    what: str
    path: Path
    ready: bool


@dataclass(frozen=True)
class Inventory(Result):
    """All names, and whether each is on this machine."""

    items: tuple[Item, ...]

    @property
    def ok(self) -> bool:
        """Whether everything bundled is there."""
        return all(item.ready for item in self.items if item.name not in CATALOG)

    def headline(self) -> str:
        """The names that can be used now, and those to fetch."""
        ready = ", ".join(item.name for item in self.items if item.ready)
        absent = ", ".join(item.name for item in self.items if not item.ready)
        return f"here: {ready or 'nothing'}" + (f"; to fetch: {absent}" if absent else "")

    def tables(self) -> tuple[Table, ...]:
        """One row a name."""
        rows = [[i.name, i.kind, i.what, str(i.path) if i.ready else f"mindport fetch {i.name}"] for i in self.items]
        return (Table("models and texts", ["name", "kind", "what", "where, or how to get it"], rows),)


def available() -> Inventory:
    """Everything that has a name: bundled, and fetched or to be fetched."""
    bundled = [(name, "model", what, DATA / "models" / name) for name, what in BUNDLED.items()]
    bundled += [(name, "text", what, DATA / "corpus" / file) for name, (what, file) in TEXTS.items()]
    fetched = [(e.name, e.kind, e.what, result_path(e, cache_directory())) for e in CATALOG.values()]
    return Inventory(tuple(Item(n, kind, what, path, _is_there(path)) for n, kind, what, path in bundled + fetched))


def provenance(directory: Path | str) -> str:
    """What a model's directory says of its origin ("dequantised from …"), "" when it says nothing.

    Raises:
        FileError: what it says is damaged.
    """
    path = Path(directory) / PROVENANCE
    content = read_json(path) if path.is_file() else {}
    if not isinstance(content, dict):
        raise FileError("the note on the model's origin is damaged", where=path, got=type(content).__name__,
                        expected="an object", do="fetch the model again, or remove the file")  # fmt: skip
    return ". ".join(str(content[key]) for key in ("what", "note") if key in content)


def is_name(name_or_path: str | Path) -> bool:
    """Whether it is the name of a model here; a folder called so is written ./name."""
    return str(name_or_path) in {item.name for item in available().items if item.kind == "model"}


def resolve(name_or_path: str | Path) -> Path:
    """The directory of a model: bundled ("tiny-gpt2", "tiny-llama"), fetched ("smollm2"), or a path.

    Raises:
        FileError: nothing is there, it is not a directory, or the model was not fetched yet.
    """
    models = {item.name: item for item in available().items if item.kind == "model"}
    if item := models.get(str(name_or_path)):
        if not item.ready:
            do = f"mindport fetch {item.name}" if item.name in CATALOG else "work in a checkout of the repository"
            raise FileError(f"the model {item.name} is not on this machine", where=item.path, do=do)
        return item.path
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return path
    near = difflib.get_close_matches(str(name_or_path), models, n=1)
    raise FileError(
        "the model is a file; a directory with config.json is wanted" if path.exists() else "there is no such model",
        got=str(name_or_path),
        expected=f"a Hugging Face directory, or one of: {', '.join(models)}",
        do=f"did you mean {near[0]}?" if near else "check the path, or fetch one: mindport fetch smollm2",
    )


def text_file(name_or_path: str | Path) -> Path | None:
    """The file of a text that has a name here ("corpus", "questions", "shakespeare"); None for what is a path.

    Raises:
        FileError: the text was not fetched yet.
    """
    item = next((item for item in available().items if item.kind == "text" and item.name == str(name_or_path)), None)
    if item and not item.ready:
        do = f"mindport fetch {item.name}" if item.name in CATALOG else "work in a checkout of the repository"
        raise FileError(f"the text {item.name} is not on this machine", where=item.path, do=do)
    return item.path if item else None


def model_for(size: str, model: str = "") -> Path:
    """The directory of the model that a run of this size takes: the named one, or that of the size.

    Raises:
        UsageError: there is no such size, or size "full" names no model.
        FileError: the model is not here.
    """
    if not model and size not in BY_SIZE:
        known = ", ".join([*BY_SIZE, "full"])
        what = "size full runs your own model" if size == "full" else "there is no such size"
        raise UsageError(what, got=model or size, expected=known, do="name a model, or choose another size")
    named = model or BY_SIZE[size]
    return resolve(named if is_name(named) else rooted(named))


def corpus() -> Path:
    """The bundled text, under 500 kB.

    Raises:
        FileError: `data/` is not beside the library.
    """
    path = DATA / "corpus" / "shakespeare.txt"
    if not path.is_file():
        raise FileError("the bundled text is missing", where=path, do="work in a checkout of the repository")
    return path


def _is_there(path: Path) -> bool:
    return path.is_file() or any((path / mark).is_file() for mark in ("config.json", PROVENANCE))
