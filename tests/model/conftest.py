from __future__ import annotations

import pytest
import torch

from tests.model.reference import CASES, Pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """`pair("llama")`: the torch model of that name and our builder for it, made once."""
    torch.set_num_threads(1)
    made: dict[str, Pair] = {}

    def get(name: str) -> Pair:
        if name not in made:
            made[name] = Pair(tmp_path_factory.mktemp("hf"), *CASES[name])
        return made[name]

    return get
