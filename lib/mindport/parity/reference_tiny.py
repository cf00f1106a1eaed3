"""Tiny random models of the real transformers classes and their traces, for what the bundled models cannot show.

    python -m mindport.parity.reference_tiny --out DIR [NAME …]     DIR/NAME/source, DIR/NAME/trace

Three layers, all dimensions different, no norm that multiplies by one, no bias that is zero; windows are shorter than
the input.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

from mindport.config import DIALECTS
from mindport.files import read_json, write_json
from mindport.parity.reference import record
from mindport.parity.tiny import MODELS, Tiny


def build(tiny: Tiny) -> Any:
    """A model with random weights: matrices that keep the size of what they multiply, norms near 1, small biases."""
    dialect = DIALECTS[tiny.family]
    config = getattr(transformers, dialect.config_class)(**tiny.settings)
    torch.manual_seed(0)
    model = getattr(transformers, dialect.architecture)(config)
    centre = 0.0 if dialect.constants.get("norm_offset") else 1.0
    with torch.no_grad():
        for name, value in model.named_parameters():
            table = any(part in name for part in ("wte", "wpe", "embed"))
            value.normal_(0, 1 if table else 0.3 if value.ndim == 1 else value.shape[1] ** -0.5)
            if value.ndim == 1 and name.endswith("weight"):
                value += centre
    return model


def make(name: str, out: Path) -> None:
    """The Hugging Face directory of one model, and its trace."""
    tiny, source = MODELS[name], out / name / "source"
    build(tiny).save_pretrained(source)
    if tiny.vocab_size is not None:
        write_json(source / "config.json", {**read_json(source / "config.json"), "vocab_size": tiny.vocab_size})
    record(source, out / name / "trace", padded_vocab=tiny.padded_vocab)


def main(argv: list[str] | None = None) -> int:
    """The command line of the process."""
    parser = argparse.ArgumentParser(prog="python -m mindport.parity.reference_tiny")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}; default: all")
    parser.add_argument("--out", type=Path, required=True, help="a directory for them")
    given = parser.parse_args(argv)
    for name in given.names or MODELS:
        make(name, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
