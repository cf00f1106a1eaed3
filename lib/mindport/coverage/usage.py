"""What a target uses of torch: one entry a use, with its place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """The same for source that was read and for a module that ran.

    Attributes:
        uses: (torch name in full, `file:line`), one a use.
        files: how many files were read.
        unread: (file, reason) of those that could not be.
        notes: what was passed over, and why.
    """

    uses: tuple[tuple[str, str], ...]
    files: int = 1
    unread: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def by_name(self) -> dict[str, list[str]]:
        """Name → where it is used."""
        places: dict[str, list[str]] = {}
        for name, place in self.uses:
            places.setdefault(name, []).append(place)
        return places
