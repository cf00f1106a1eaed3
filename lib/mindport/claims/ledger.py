"""The ledger, `data/claims.yaml`: read strictly, so that nothing in it is passed over.

    topics:
      attention: Attention and its operators
    set_ups:
      block: code that the checks of several claims share; run once for all of them
    claims:
      - id: C024
        topic: attention
        claim: one sentence, in our words
        verdict: holds, partly or false; or version-dependent, inconsistent, Ascend only
        here: holds, partly or false: what the check gives, if the verdict is one of the other three
        practice: what to do instead (may be left out where the claim holds)
        seen_on: mindspore 2.10.0, torch 2.13.0
        check: a snippet of Python that ends in what it saw (see `snippet.py`)
        why_not: or the reason why there is none
        set_up: block
        alone: yes, for a check that needs a fresh process, or spoils the one it runs in
        timeout: seconds, if not 60

Every value is text: to YAML itself `false` would be a boolean and `2.10` a number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mindport.claims.snippet import why_unusable
from mindport.errors import FileError, UsageError, some
from mindport.places import rooted

LEDGER = "data/claims.yaml"
MEASURED = ("holds", "partly", "false")  # what a check can give
VERDICTS = (*MEASURED, "version-dependent", "inconsistent", "Ascend only")
TIMEOUT = 60.0  # seconds
PARTS = ("topics", "set_ups", "claims")
REQUIRED = ("id", "topic", "claim", "verdict", "seen_on")
OPTIONAL = ("here", "practice", "check", "why_not", "set_up", "alone", "timeout")


@dataclass(frozen=True)
class Claim:
    """One entry; what it leaves out is empty."""

    id: str
    topic: str
    claim: str
    verdict: str
    seen_on: str
    here: str = ""
    practice: str = ""
    check: str = ""
    why_not: str = ""
    set_up: str = ""
    alone: bool = False
    timeout: float = TIMEOUT

    @property
    def expected(self) -> str:
        """What its check gives as long as nothing has changed."""
        return self.here or self.verdict


@dataclass(frozen=True)
class Ledger:
    """All claims in order, the titles of the topics, and the code that checks share."""

    claims: tuple[Claim, ...]
    topics: dict[str, str]
    set_ups: dict[str, str]

    def select(self, only: Sequence[str] = (), topics: Sequence[str] = ()) -> tuple[Claim, ...]:
        """The claims of these ids, and those of these topics; all of them when nothing is named.

        Raises:
            UsageError: there is no such id or topic.
        """
        ids = [claim.id for claim in self.claims]
        if unknown := [name for name in only if name not in ids]:
            raise UsageError("there is no such claim", got=some(unknown), expected=f"{ids[0]} to {ids[-1]}")
        if unknown := [name for name in topics if name not in self.topics]:
            raise UsageError("there is no such topic", got=some(unknown), expected=", ".join(self.topics))
        everything = not (only or topics)
        return tuple(c for c in self.claims if everything or c.id in only or c.topic in topics)


def read_ledger(path: Path | None = None) -> Ledger:
    """Read the ledger; without a path, the repository's.

    Raises:
        FileError: it is missing, is no YAML, or an entry is not as it should be; with the line and the claim.
    """
    path = rooted(LEDGER) if path is None else Path(path)
    return _Reader(path).ledger()


class _Reader:
    """YAML as nodes: they know their lines, and a key that stands twice is still seen twice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
        except FileNotFoundError:
            raise FileError("the ledger of claims is missing", where=path, do="run this in the repository") from None
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
            raise FileError("the ledger of claims cannot be read", where=path, got=error) from None

    def ledger(self) -> Ledger:
        if self.root is None:
            raise FileError("the ledger of claims is empty", where=self.path)
        parts = self._mapping(self.root, PARTS, PARTS)
        topics, set_ups = (self._texts(parts[name]) for name in ("topics", "set_ups"))
        if not isinstance(parts["claims"], yaml.SequenceNode):
            raise self._wrong(parts["claims"], "the claims are not a list")
        claims: dict[str, Claim] = {}
        for node in parts["claims"].value:
            claim = self._claim(node, topics, set_ups)
            if claim.id in claims:
                raise self._wrong(node, "two claims have the same id", claim.id)
            claims[claim.id] = claim
        if idle := set(set_ups) - {claim.set_up for claim in claims.values()}:
            raise self._wrong(parts["set_ups"], "a set-up that no claim uses", got=some(sorted(idle)))
        return Ledger(tuple(claims.values()), topics, set_ups)

    def _claim(self, node: yaml.Node, topics: dict[str, str], set_ups: dict[str, str]) -> Claim:
        texts = {key: self._text(value) for key, value in self._mapping(node, REQUIRED, OPTIONAL).items()}
        given: dict[str, Any] = {**texts}
        for found in _faults(texts, topics, set_ups):
            raise self._wrong(node, found, texts["id"])
        if "timeout" in texts:
            given["timeout"] = float(texts["timeout"])
        if "alone" in texts:
            given["alone"] = True
        return Claim(**given)

    def _mapping(self, node: yaml.Node, required: Sequence[str], optional: Sequence[str] | None) -> dict[str, Any]:
        """The values by key; `optional` None lets any further key pass."""
        if not isinstance(node, yaml.MappingNode):
            raise self._wrong(node, "a mapping is expected here")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = self._text(key)
            if name in found:
                raise self._wrong(key, "the key stands there twice", got=name)
            if optional is not None and name not in (*required, *optional):
                raise self._wrong(key, "there is no such key", _id(found), name, ", ".join((*required, *optional)))
            found[name] = value
        if missing := [name for name in required if name not in found]:
            raise self._wrong(node, "a key is missing", _id(found), expected=some(missing))
        return found

    def _texts(self, node: yaml.Node) -> dict[str, str]:
        return {key: self._text(value) for key, value in self._mapping(node, (), None).items()}

    def _text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            raise self._wrong(node, "a text is expected here, and not an empty one")
        return node.value.strip()

    def _wrong(
        self, node: yaml.Node, what: str, claim: str = "", got: str | None = None, expected: str | None = None
    ) -> FileError:
        where = f"{self.path}, line {node.start_mark.line + 1}" + (f", claim {claim}" if claim else "")
        return FileError(f"ledger of claims: {what}", where=where, got=got, expected=expected)


def _id(found: dict[str, Any]) -> str:
    return str(found["id"].value) if "id" in found else ""


def _faults(texts: dict[str, str], topics: dict[str, str], set_ups: dict[str, str]) -> list[str]:
    """What does not go together in an entry whose keys are right."""
    verdict, here, check = texts["verdict"], texts.get("here"), texts.get("check")
    set_up = texts.get("set_up")
    code = {"check": check, f"set-up {set_up}": set_ups.get(set_up or "")}
    unusable = {name: why_unusable(text, name == "check") for name, text in code.items() if text}
    rules = {
        "an id is C and three digits": re.fullmatch(r"C\d{3}", texts["id"]),
        f"no such topic: {texts['topic']}": texts["topic"] in topics,
        f"no such verdict: {verdict}; expected {', '.join(VERDICTS)}": verdict in VERDICTS,
        "exactly one of check and why_not is expected": (check is None) == ("why_not" in texts),
        "here is one of holds, partly, false": here is None or here in MEASURED,
        "here stands beside a check, and only if the verdict is not what a check gives": (
            (here is not None) == (check is not None and verdict not in MEASURED)
        ),
        "what does not hold needs a practice": verdict == "holds" or "practice" in texts,
        f"no such set-up: {set_up}": set_up is None or (set_up in set_ups and check is not None),
        "alone says yes, of a check, or is left out": texts.get("alone", "yes") == "yes"
        and ("alone" not in texts or check is not None),
        "a timeout is a number of seconds": re.fullmatch(r"[1-9]\d{0,3}", texts.get("timeout", "60")),
        **{f"{name}: {why}": not why for name, why in unusable.items()},
    }
    return [rule for rule, kept in rules.items() if not kept]
