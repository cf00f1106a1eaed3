"""Environment variables of distributed training: which exist, who reads them, and what only articles know.

What is said of MindSpore is looked up in the installed package: its Python files, and the read-only data of its
libraries, where literals lie. A name counts when no letter, digit or underscore touches it, so that
OMPI_COMM_WORLD_SIZE is no WORLD_SIZE. A compiler may put a name of up to 15 letters into instructions; the search does
not see it there, and `exists` is then the one verdict that is certain.
"""

from __future__ import annotations

import mmap
import re
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from mindport.errors import BackendError
from mindport.results import Property, Result, verdict
from mindport.tables import Table

FILE = Path(__file__).with_name("variables.yaml")
OWN, FOREIGN = "MindSpore", ("PyTorch", "nobody")


@dataclass(frozen=True)
class Variable:
    """One variable, as its source describes it.

    Attributes:
        name: the variable.
        layer: who reads it: MindSpore, HCCL, CANN, container, MPI; PyTorch or nobody where MindSpore does not.
        does, default, source: what it does, what holds when it is unset, and who says so.
    """

    name: str
    layer: str
    does: str
    default: str
    source: str

    @property
    def verdict(self) -> str:
        """What an article that uses it for MindSpore is told."""
        return "exists" if self.layer == OWN else "does not exist" if self.layer in FOREIGN else "of another layer"


@dataclass(frozen=True)
class VariablesReport(Result):
    """The table, held against the installed package.

    Attributes:
        version: of the package.
        variables: the table.
        found: by name the files that contain it.
        files: how many files were searched.
        seconds: what that took.
    """

    version: str
    variables: tuple[Variable, ...]
    found: dict[str, tuple[str, ...]]
    files: int
    seconds: float

    @property
    def wrong(self) -> tuple[str, ...]:
        """Variables that the package contradicts."""
        there = {v.name: bool(self.found[v.name]) for v in self.variables}
        lost = (v.name for v in self.variables if v.layer == OWN and not there[v.name])
        return (*lost, *(v.name for v in self.variables if v.layer in FOREIGN and there[v.name]))

    @property
    def ok(self) -> bool:
        return not self.wrong

    def headline(self) -> str:
        counts = [sum(v.verdict == kind for v in self.variables) for kind in ("exists", "does not exist")]
        end = f"; the package contradicts: {', '.join(self.wrong)}" if self.wrong else ""
        return (
            f"{counts[0]} variables are MindSpore's, {counts[1]} are in none of its {self.files:,} files, "
            f"{len(self.variables) - sum(counts)} are of another layer (mindspore {self.version}){end}"
        )

    def tables(self) -> tuple[Table, ...]:
        rows = [(v.name, v.verdict, v.layer, len(self.found[v.name]), v.does, v.default, v.source)
                for v in sorted(self.variables, key=lambda v: v.verdict != "does not exist")]  # fmt: skip
        columns = ("variable", "verdict", "layer", "files", "what it does", "default", "source")
        return (Table("Environment variables", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        return (verdict("environment variables of MindSpore are those of the installed package", self.ok,
                        "names searched in its Python files and in the data of its libraries",
                        f"{len(self.variables) - len(self.wrong)} of {len(self.variables)}"),)  # fmt: skip


@cache
def variables() -> tuple[Variable, ...]:
    """The table."""
    import yaml

    return tuple(Variable(**row) for row in yaml.safe_load(FILE.read_text(encoding="utf-8")))


def check_variables(package: Path | None = None, table: tuple[Variable, ...] | None = None) -> VariablesReport:
    """Search the package for every name of the table.

    Args:
        package: the folder; None for the installed mindspore, which is not imported.
        table: other variables; None for those of `variables`.

    Raises:
        BackendError: there is no such package.
    """
    started, table = time.perf_counter(), variables() if table is None else table
    package = package or _installed()
    files = [path for path in sorted(package.rglob("*")) if _is_code(path)]
    found = search(files, [variable.name for variable in table])
    names = {name: tuple(path.relative_to(package).as_posix() for path in paths) for name, paths in found.items()}
    return VariablesReport(_version(package), table, names, len(files), time.perf_counter() - started)


def search(files: Iterable[Path], names: Iterable[str]) -> dict[str, list[Path]]:
    """By name the files that contain it, whole."""
    words = list(names)
    pattern = re.compile(b"|".join(re.escape(word.encode()) for word in sorted(words, reverse=True)))
    found: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                continue
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                here = {hit[0].decode() for start, end in _literals(data) for hit in pattern.finditer(data, start, end)
                        if _is_whole(data, hit)}  # fmt: skip
        for name in here:
            found[name].append(path)
    return {word: found[word] for word in words}


def _is_whole(data: mmap.mmap, hit: re.Match[bytes]) -> bool:
    around = data[max(hit.start() - 1, 0) : hit.start()], data[hit.end() : hit.end() + 1]
    return not any(byte.isalnum() or byte == b"_" for byte in around)


def _literals(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Where text can lie: a Python file whole, of a 64-bit ELF library the sections .rodata*."""
    if data[:5] != b"\x7fELF\x02":
        yield 0, len(data)
        return
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        if data[headers[names][4] + name :][:7] == b".rodata":
            yield offset, offset + length


def _is_code(path: Path) -> bool:
    return (path.suffix == ".py" or ".so" in path.suffixes) and path.is_file() and not path.is_symlink()


def _installed() -> Path:
    spec = find_spec("mindspore")
    if spec is None or spec.origin is None:
        raise BackendError("there is no package to search", got="mindspore is not installed", do="make setup")
    return Path(spec.origin).parent


def _version(package: Path) -> str:
    """As the package says; it is not imported for that."""
    file = package / "version.py"
    said = re.search(r"[\"'](\d[^\"']*)[\"']", file.read_text(encoding="utf-8")) if file.is_file() else None
    return said[1] if said else "?"
