"""Files of the result: one for each rank, or those of a MindPort directory; arrays in any order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mindport.parallel.reshard.mindspore_side import PREFIX
from mindport.parallel.reshard.places import Entry, Grid, Place, part
from mindport.parallel.reshard.side import MindSporeSide
from mindport.training.checkpoint.boxes import shape_of
from mindport.weights.dtypes import digest
from mindport.weights.safetensors_io import fingerprint, make_header
from mindport.weights.writers import FileLayout, SafetensorsFiles, Specs, new_layout

METADATA = {"format": "ms"}  # what MindSpore writes there


class Sink:
    """Takes parts, and the digests that they should have, and proves in the end that the files hold these.

    Args:
        directory: where the files go.
        layouts: rank → its files.
    """

    def __init__(self, directory: Path, layouts: Mapping[int, FileLayout]) -> None:
        self.directory, self.layouts = directory, layouts
        for layout in layouts.values():
            for file in layout.headers:
                (directory / file).parent.mkdir(exist_ok=True)
        self.files = {rank: SafetensorsFiles(directory, layout) for rank, layout in layouts.items()}
        self.meant: dict[int, dict[str, str]] = {rank: {} for rank in layouts}

    def write(self, rank: int, name: str, made: np.ndarray, meant: np.ndarray) -> None:
        """Put a part into its file; `meant` is what should stand there."""
        self.files[rank].write(name, made)
        self.meant[rank][name] = digest(meant)

    def close(self, *, complete: bool = True) -> None:
        """Close the files; `complete` asserts that every part came."""
        for files in self.files.values():
            files.close(complete=complete)

    def as_checkpoints(self, side: MindSporeSide, work: Path) -> list[str]:
        """Turn the files into .ckpt ones, and each of these back; what is not equal then, as `rank: name`."""
        wrong = []
        for rank, layout in self.layouts.items():
            for file in layout.headers:
                path, back = self.directory / file, work / f"back_{rank}.safetensors"
                side.ask("convert", source=path, target=path.with_suffix(".ckpt"))
                path.unlink()
                side.ask("convert", source=path.with_suffix(".ckpt"), target=back)
                wrong += self._differing(rank, back, self.meant[rank])
                back.unlink()
        return wrong

    def prove(self) -> list[str]:
        """Read every file; what does not read back as it was meant, as `rank: name`."""
        wrong = []
        for rank, layout in self.layouts.items():
            for file, header in layout.headers.items():
                meant = {name: self.meant[rank][name] for name in header.entries}
                wrong += self._differing(rank, self.directory / file, meant)
        return wrong

    def _differing(self, rank: int, path: Path, meant: Mapping[str, str]) -> list[str]:
        _, found = fingerprint(path)
        names = sorted(name for name in meant.keys() | found.keys() if meant.get(name) != found.get(name))
        return [f"rank {rank}: {name} does not read back" for name in names]


def rank_file(rank: int) -> str:
    """Where MindSpore and mindformers look for a rank's checkpoint."""
    return f"rank_{rank}/{PREFIX}{rank}.safetensors"


def rank_layouts(entries: Mapping[str, Entry], places: Mapping[str, Place], over: Grid) -> dict[int, FileLayout]:
    """Rank → the file of what it holds: weights and state together, as MindSpore saves them."""
    return {rank: FileLayout({rank_file(rank): make_header(held(entries, places, over, rank), METADATA)})
            for rank in range(over.ranks)}  # fmt: skip


def held(entries: Mapping[str, Entry], places: Mapping[str, Place], over: Grid, rank: int) -> Specs:
    """What a rank holds: name → precision and shape of its part."""
    cuts = ((entry, part(entry, places[entry.name], over, rank)) for entry in entries.values())
    return {entry.name: (entry.dtype, shape_of(cut)) for entry, cut in cuts if cut is not None}


def whole_layout(entries: Mapping[str, Entry], state: str) -> dict[int, FileLayout]:
    """The files of a MindPort directory, and one for the state where there is some."""
    specs = {entry.name: (entry.dtype, entry.shape) for entry in entries.values()}
    weights = new_layout({n: s for n, s in specs.items() if entries[n].kind == "weight"}, {"format": "np"})
    rest = {n: s for n, s in specs.items() if entries[n].kind != "weight"}
    headers = weights.headers | ({state: make_header(rest, {})} if rest else {})
    return {0: FileLayout(headers, weights.index)}
