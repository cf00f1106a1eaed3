"""The logs of the ranks, line by line as they grow, without what MindSpore says to itself."""

from __future__ import annotations

import re
from pathlib import Path

NOISE = re.compile(r"\[(?:DEBUG|INFO|WARNING)\] [A-Z_]+\(")  # begins the lines of MindSpore's own logger
JOINED = re.compile(r"rank id: (\d+),.* is registered successfully")
PORT_TAKEN = "Failed to create the TCP server"
CHUNK = 1 << 20  # bytes read at a time


class Log:
    """A file that another process writes.

    Args:
        path: it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = ""  # the last line that said something
        self._read, self._rest = 0, b""

    @property
    def size(self) -> int:
        """Bytes that are there."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def lines(self, limit: int) -> list[str]:
        """The lines since the last call that end within the first `limit` bytes."""
        if limit <= self._read:
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            text = file.read(min(CHUNK, limit - self._read))
        self._read += len(text)
        *whole, self._rest = (self._rest + text).split(b"\n")
        return [self._text(line) for line in whole]

    def rest(self) -> list[str]:
        """The last line, when it has no end."""
        line, self._rest = self._rest, b""
        return [self._text(line)] if line else []

    def _text(self, line: bytes) -> str:
        """A line as a terminal would show it: of what a progress bar wrote over itself, the last."""
        text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
        if text.strip() and not is_noise(text):
            self.last = text.strip()
        return text


def is_noise(line: str) -> bool:
    """Whether it is MindSpore's own, and neither an error nor worse."""
    return NOISE.match(line) is not None
