"""Two names for one thing: rules that turn A's names into B's, the pairs that they make, and proposals.

    encoder.layers.{i} = blocks.{i}          {i} is one part of a name, whatever stands there
    self_attn = attn                         wherever it stands as a whole part, or several
    [mask] = [1]                             the name of a tensor among several
    conv{i} = net.{i}.conv @ NCHW->NHWC      B holds the axes in another order; only what ends in this name
    re:^h\\.(\\d+) = blocks.\\1                 a regular expression, as in Python

Every rule is tried on every name of A, one after the other, each on what the last one made of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import yaml

from mindport.errors import FileError, MappingError, UsageError, some

KINDS = ("in", "out", "back", "grad")  # what stands before a path in an array's name
PLACE = re.compile(r"\{(\w+)\}")
PART = r"[^.\[\]#]+"  # of a name
BEGIN, END = r"(?:^|(?<=\.))", r"(?=$|[.\[#])"
AFTER = re.compile(r"(\[[^\]]*\]|#\d+)*")  # what may follow a module's path: which call, which of several tensors
NUMBER = BEGIN + r"\d+" + END  # one that is a whole part
REGEX, LAYOUT = "re:", re.compile(r"([A-Za-z]+)->([A-Za-z]+)")
# MindSpore's names of parameters, in torch's words
ALIASES = {"gamma": "weight", "beta": "bias", "embedding_table": "weight", "moving_mean": "running_mean",
           "moving_variance": "running_var"}  # fmt: skip
FORM = "PATTERN=PATTERN, or PATTERN=PATTERN@NCHW->NHWC"


@dataclass(frozen=True)
class Rule:
    """A's name → B's, and the order in which B holds the axes (`NCHW->NHWC`).

    Raises:
        UsageError: the pattern, its places or the layout make no sense.
    """

    source: str
    target: str
    layout: str = ""

    def __post_init__(self) -> None:
        if not self.source or not self.target:
            raise UsageError("a rule lacks a name", got=str(self), expected=FORM)
        unknown = set(PLACE.findall(self.target)) - set(PLACE.findall(self.source))
        if unknown and not self.is_regex:
            raise UsageError("a rule's target has places that its pattern lacks", where=str(self), got=some(unknown))
        try:
            self.apply("")
        except (re.error, IndexError) as error:
            raise UsageError("a rule's pattern is wrong", where=str(self), got=error) from None
        _ = self.axes

    def __str__(self) -> str:
        return f"{self.source}={self.target}" + f"@{self.layout}" * bool(self.layout)

    @property
    def is_regex(self) -> bool:
        return self.source.startswith(REGEX)

    @property
    def axes(self) -> tuple[int, ...] | None:
        """For `np.transpose` of A's array; None where the layout is the same."""
        if not self.layout:
            return None
        found = LAYOUT.fullmatch(self.layout)
        before, after = found.groups() if found else ("", "")
        if not found or sorted(before) != sorted(after) or len(set(before)) != len(before):
            raise UsageError("a layout names the same axes twice, once in each order", where=str(self), got=self.layout,
                             expected="NCHW->NHWC")  # fmt: skip
        return tuple(before.index(axis) for axis in after)

    def apply(self, name: str) -> str:
        """The name with each match replaced."""
        if self.is_regex:
            return self._pattern.sub(self.target, name)
        return self._pattern.sub(lambda found: PLACE.sub(lambda place: found[place[1]], self.target), name)

    def matches(self, name: str) -> bool:
        return self._pattern.search(name) is not None

    def reaches_end(self, name: str) -> bool:
        """Whether the pattern stands at the end of a name, so that the layout is meant."""
        return any(AFTER.fullmatch(name, found.end()) for found in self._pattern.finditer(name))

    @property
    def _pattern(self) -> re.Pattern[str]:
        if self.is_regex:
            return re.compile(self.source.removeprefix(REGEX))
        seen: set[str] = set()
        parts = PLACE.split(self.source)  # text, place, text, place, …, text
        made = [_place(part, seen) if index % 2 else re.escape(part) for index, part in enumerate(parts)]
        return re.compile(BEGIN * (self.source[0] != "[") + "".join(made) + END)


def _place(name: str, seen: set[str]) -> str:
    """A group the first time, what it held the next."""
    again = name in seen
    seen.add(name)
    return f"(?P={name})" if again else f"(?P<{name}>{PART})"


@dataclass(frozen=True)
class Pair:
    """One thing under both names, without what stands before the path."""

    kind: str
    a: str
    b: str
    axes: tuple[int, ...] | None = None

    @property
    def names(self) -> tuple[str, str]:
        """The arrays' names."""
        return joined(self.kind, self.a), joined(self.kind, self.b)


@dataclass(frozen=True)
class Pairing:
    """All pairs, what has no partner, and how many names of A each rule changed."""

    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    uses: tuple[int, ...]


def read_rules(words: Iterable[str]) -> tuple[Rule, ...]:
    """Rules from a command line: each word is a rule, or a YAML file of them.

    Raises:
        UsageError: a word is neither.
        FileError: the file is no mapping of names.
    """
    return tuple(rule for word in words for rule in (_file(Path(word)) if _is_file(word) else [_rule(word)]))


def pair(a: Collection[str], b: Collection[str], rules: Sequence[Rule], aliases: bool = False) -> Pairing:
    """Bring the arrays' names of two traces together.

    Args:
        a, b: names of arrays.
        rules: from A to B.
        aliases: the frameworks differ: what is left is tried once more, `gamma` as `weight` and so on.

    Raises:
        MappingError: two names of A become one.
    """
    theirs, uses = {split(name) for name in b}, [0] * len(rules)
    renamed: dict[tuple[str, str], str] = {}
    for name in a:
        kind, path = split(name)
        made = (kind, _renamed(path, rules, uses) if kind in KINDS else path)
        if made in renamed and made in theirs:
            raise MappingError("two names of A become one name of B", where=joined(*made),
                               got=f"{renamed[made]} and {name}", do="make the rules narrower")  # fmt: skip
        renamed.setdefault(made, name)
    found = {key: key for key in renamed if key in theirs}
    if aliases:
        found |= _by_alias([key for key in renamed if key not in found], theirs - found.keys())
    pairs = tuple(_pair(renamed[mine], other, rules) for mine, other in found.items())
    taken_a, taken_b = ({made.names[side] for made in pairs} for side in (0, 1))
    only_a, only_b = ([name for name in names if name not in taken] for names, taken in ((a, taken_a), (b, taken_b)))
    return Pairing(pairs, tuple(only_a), tuple(only_b), tuple(uses))


def propose(a: Sequence[tuple[str, Any]], b: Sequence[tuple[str, Any]], limit: int = 8) -> tuple[str, ...]:
    """Rules that may be meant: modules without a partner that make equal shapes in equal order.

    Args:
        a, b: path and shape of what each module made, in order of execution.
        limit: so many rules at most.
    """
    shapes = [[tuple(shape) for _, shape in side] for side in (a, b)]
    blocks = SequenceMatcher(a=shapes[0], b=shapes[1], autojunk=False).get_matching_blocks()
    rules = [_generalised(a[x + n][0], b[y + n][0]) for x, y, size in blocks for n in range(size)]
    return tuple(rule for rule in dict.fromkeys(rules) if len(set(rule.split("="))) > 1)[:limit]


def split(name: str) -> tuple[str, str]:
    """`out/fc.0` → ("out", "fc.0"); a name without a kind is all path."""
    kind, slash, path = name.partition("/")
    return (kind, path) if slash and kind in KINDS else ("", name)


def joined(kind: str, path: str) -> str:
    return f"{kind}/{path}" if kind else path


def _renamed(path: str, rules: Sequence[Rule], uses: list[int]) -> str:
    for index, rule in enumerate(rules):
        uses[index] += rule.matches(path)
        path = rule.apply(path)
    return path


def _pair(name: str, other: tuple[str, str], rules: Sequence[Rule]) -> Pair:
    kind, path = split(name)
    axes, now = None, path
    for rule in rules if kind in KINDS else ():
        axes = rule.axes if rule.layout and rule.reaches_end(now) else axes
        now = rule.apply(now)
    return Pair(kind, path, other[1], axes)


def _by_alias(left: Iterable[tuple[str, str]], theirs: Iterable[tuple[str, str]]) -> dict[Any, Any]:
    """Pairs of keys that are the same in torch's words, where that is so of one on each side only."""
    words: dict[tuple[str, str], tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for side, keys in enumerate((left, theirs)):
        for kind, path in keys:
            words[kind, _plain(path)][side].append((kind, path))
    return {mine[0]: other[0] for mine, other in words.values() if len(mine) == len(other) == 1}


def _plain(path: str) -> str:
    head, dot, leaf = path.rpartition(".")
    return head + dot + ALIASES.get(leaf, leaf)


def _generalised(a: str, b: str) -> str:
    """`layers.0.fc=blocks.0.up` → `layers.{i}.fc=blocks.{i}.up`."""
    for place, number in zip("ijk", re.findall(NUMBER, a), strict=False):
        if re.search(same := BEGIN + number + END, b):
            a, b = (re.sub(same, f"{{{place}}}", path, count=1) for path in (a, b))
    return f"{a}={b}"


def _is_file(word: str) -> bool:
    return word.endswith((".yaml", ".yml"))


def _rule(word: str) -> Rule:
    source, equals, rest = word.partition("=")
    if not equals:
        raise UsageError("this is no rule for names", where="--map", got=word, expected=f"{FORM}, or FILE.yaml")
    target, _, layout = rest.partition("@")
    return Rule(source.strip(), target.strip(), layout.strip())


class _Unique(yaml.SafeLoader):
    """YAML in which a name stands once: of two rules for it, the reader would drop one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := {str(key) for key in keys if keys.count(key) > 1}:
            raise yaml.constructor.ConstructorError(None, None, f"{some(twice)} stands there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _file(path: Path) -> list[Rule]:
    try:
        read = yaml.load(path.read_text(encoding="utf-8"), Loader=_Unique)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise FileError("the rules cannot be read", where=path, got=error) from None
    if not isinstance(read, Mapping) or not read:
        raise FileError("the rules are no mapping of A's names to B's", where=path, got=type(read).__name__,
                        expected="lines like `encoder.layers.{i}: blocks.{i}`")  # fmt: skip
    return [_entry(path, source, target) for source, target in read.items()]


def _entry(path: Path, source: object, target: object) -> Rule:
    """`source: target`, or `source: {to: target, layout: NCHW->NHWC}`."""
    said = target if isinstance(target, Mapping) else {"to": target}
    values = [source, said.get("to", source), said.get("layout", "")]
    if said.keys() - {"to", "layout"} or not all(isinstance(value, str) for value in values):
        raise FileError("a rule is neither a name nor `to` and `layout`", where=f"{path}: {source}", got=target,
                        do="put what YAML takes for a number or a truth value in quotes")  # fmt: skip
    return Rule(*(str(value) for value in values))
