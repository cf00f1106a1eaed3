"""The model's own tokenizer, by `tokenizers`, and the special tokens that its files and config.json name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.errors import FileError, some
from mindport.files import read_json, sha256
from mindport.training.data.files import END_OF_TEXT

NAME = "tokenizer.json"
TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


@dataclass(frozen=True)
class Tokenizer:
    """What turns text into ids.

    Attributes:
        directory: the model's.
        core: `tokenizers.Tokenizer`, which neither cuts nor pads.
        names: special tokens by name ("eos_token" → "<|endoftext|>").
        before: ids in front of a document (BOS, as the post-processor says).
        eos: the id that ends a document.
        pad: the id in padding, which no label counts.
        after: ids behind a document; the last one is `eos`.
    """

    directory: Path
    core: Any
    names: dict[str, str]
    before: tuple[int, ...]
    eos: int
    pad: int
    after: tuple[int, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts that divide the documents of a .txt file."""
        return tuple(dict.fromkeys((END_OF_TEXT, self.core.id_to_token(self.eos))))


def read_tokenizer(directory: Path, vocab_size: int) -> Tokenizer:
    """Read a model's tokenizer, and hold it to the model.

    Raises:
        FileError: it is missing or damaged, has ids beyond the vocabulary, or disagrees with config.json about EOS.
    """
    from tokenizers import Tokenizer as Core

    path = directory / NAME
    if not path.is_file():
        raise FileError("the model has no tokenizer.json", where=directory,
                        do="save it: AutoTokenizer.from_pretrained(…).save_pretrained(…)")  # fmt: skip
    try:
        core = Core.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise FileError("the tokenizer cannot be read", where=path, got=error) from None
    core.no_truncation()  # some files ship with the settings of their last use
    core.no_padding()
    _check_vocabulary(core, vocab_size, path)
    settings = _object(directory / "tokenizer_config.json")
    names = {name: text for name in TOKENS if (text := _text(settings.get(name)))}
    before, after = _around(core, settings, names)
    eos = _eos(core, names, directory)
    pad = core.token_to_id(names.get("pad_token", ""))
    after = after if after[-1:] == (eos,) else (*after, eos)
    return Tokenizer(directory, core, names, before, eos, eos if pad is None else pad, after)


def digest(directory: Path) -> str:
    """SHA-256 of a model's tokenizer.json."""
    return sha256(directory / NAME)


def _check_vocabulary(core: Any, vocab_size: int, path: Path) -> None:
    beyond = {token: index for token, index in core.get_vocab(with_added_tokens=True).items() if index >= vocab_size}
    if beyond:
        raise FileError("the tokenizer has ids that the model has no row for", where=path,
                        got=some(f"{token!r} {index}" for token, index in beyond.items()) if len(beyond) < 4 else
                        f"{len(beyond)} ids up to {max(beyond.values())}", expected=f"ids below {vocab_size}",
                        do="take the tokenizer that belongs to the checkpoint")  # fmt: skip


def _around(core: Any, settings: dict[str, Any], names: dict[str, str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids that the post-processor puts around a text; `add_bos_token` and `add_eos_token`, where said, decide."""
    bare, whole = core.encode("a", add_special_tokens=False).ids, core.encode("a").ids
    at = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    before, after = tuple(whole[:at]), tuple(whole[at + len(bare) :])
    bos, eos = (core.token_to_id(names.get(name, "")) for name in ("bos_token", "eos_token"))
    if settings.get("add_bos_token") is not None and bos is not None:
        before = (bos,) if settings["add_bos_token"] else ()
    if settings.get("add_eos_token") is not None and eos is not None:
        after = (eos,) if settings["add_eos_token"] else ()
    return before, after


def _eos(core: Any, names: dict[str, str], directory: Path) -> int:
    """The tokenizer's own EOS, which the configuration must know; the configuration's where it names none."""
    known = [*_ids(directory / "config.json"), *_ids(directory / "generation_config.json")]
    own = core.token_to_id(names["eos_token"]) if "eos_token" in names else None
    if own is None and not known:
        raise FileError("nothing says which token ends a document", where=directory,
                        expected="eos_token in tokenizer_config.json, or eos_token_id in config.json")  # fmt: skip
    if own is not None and known and own not in known:
        raise FileError("the tokenizer's end of text is not the model's", where=directory / "tokenizer_config.json",
                        got=f"eos_token {names['eos_token']!r}, id {own}",
                        expected=f"eos_token_id of config.json: {', '.join(map(str, dict.fromkeys(known)))}",
                        do="take the tokenizer that belongs to the checkpoint, or correct one of the two")  # fmt: skip
    return known[0] if own is None else own


def _ids(path: Path) -> list[int]:
    found = _object(path).get("eos_token_id")
    return [] if found is None else [*found] if isinstance(found, list) else [found]


def _object(path: Path) -> dict[str, Any]:
    value = read_json(path) if path.is_file() else {}
    if not isinstance(value, dict):
        raise FileError("the file is damaged", where=path, got=type(value).__name__, expected="an object")
    return value


def _text(token: Any) -> str | None:
    """A special token's text; older files have an object with its `content`."""
    return token.get("content") if isinstance(token, dict) else token
