"""Random edits of a model's files: each ends in a result or in a `MindPortError`, and never in anything else.

python -m tests.fuzz            for FUZZ_SECONDS (60), from a seed of its own; FUZZ_SEED=… repeats a run
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindport.config.read import inspect_config
from mindport.errors import MindPortError
from mindport.weights import convert, load
from tests.weights.models import GPT2, LLAMA, save, tensors_of

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, 10**400, 0.0, -0.5, 1e-300, 1e308, float("nan"), float("inf"), "",
    "4", "1e-5", "none", "é", "\0", "\ud800", "../x", "torch.float16", "llama", "gpt2", [], [1], [None], {}, {"a": 1},
    {"rope_type": "yarn"}, {"rope_type": "yarn", "factor": 4.0}, {"type": "linear", "factor": "2"},
    {"model_type": "llama"}, {"rope_type": "longrope", "short_factor": ["1", "x"], "long_factor": ["1"]},
    {"quant_method": "fp8"}, [[1]], "model.safetensors", "x" * 300,
)  # fmt: skip
KEYS = (
    "rope_parameters", "rope_scaling", "rope_theta", "text_config", "quantization_config", "quantization", "auto_map",
    "num_experts", "sliding_window", "layer_types", "use_sliding_window", "max_window_layers", "head_dim", "dtype",
    "torch_dtype", "num_key_value_heads", "partial_rotary_factor", "bias", "hidden_activation", "surprise", "",
)  # fmt: skip
TYPES = ("llama", "gpt2", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gpt_neox", "mixtral", "zzz", None, 3)
MODELS = (
    GPT2,
    {**LLAMA, "tie_word_embeddings": True},
    {key: value for key, value in LLAMA.items() if key not in ("attention_bias", "mlp_bias")}
    | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 24},
    {key: value for key, value in LLAMA.items() if key not in ("attention_bias", "mlp_bias")}
    | {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "hidden_size": 24, "sliding_window": 7},
)
Edit = Callable[[Path, random.Random], None]


def edit_json(path: Path, chance: random.Random) -> None:
    """One to three edits anywhere in a JSON file."""
    content = json.loads(path.read_text())
    for _ in range(chance.randint(1, 3)):
        _edit_value(content, chance)
    path.write_text(json.dumps(content))


def edit_config(path: Path, chance: random.Random) -> None:
    """As `edit_json`, with keys and families that mean something."""
    content = json.loads(path.read_text())
    for _ in range(chance.randint(0, 3)):
        content[chance.choice(KEYS)] = copy.deepcopy(chance.choice(ODD))
    if chance.random() < 0.4:
        content["model_type"] = chance.choice(TYPES)
        content.pop("architectures", None)
    path.write_text(json.dumps(content))
    edit_json(path, chance)


def edit_bytes(path: Path, chance: random.Random) -> None:
    """Bytes changed, cut off, put in or added; in the first kilobyte more often than elsewhere."""
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(max(1, min(len(data), chance.choice((16, 1024, len(data))))))
        match chance.randrange(5):
            case 0 | 1:
                data[place : place + 1] = bytes([chance.randrange(256)])
            case 2:
                del data[place : place + chance.choice((1, 8, len(data)))]
            case 3:
                data[place:place] = chance.randbytes(chance.choice((1, 8, 100)))
            case 4:
                data += chance.randbytes(chance.choice((1, 8)))
    path.write_bytes(bytes(data))


def _edit_value(content: Any, chance: random.Random) -> None:
    """One edit of some object or list inside `content`."""
    inner = [content]
    for part in inner:
        values = part.values() if isinstance(part, dict) else part
        inner += [value for value in values if isinstance(value, (dict, list))]
    part = chance.choice(inner)
    places = list(part) if isinstance(part, dict) else list(range(len(part)))
    if not places:
        return
    place = chance.choice(places)
    match chance.randrange(4):
        case 0:
            del part[place]
        case 1 if isinstance(part, dict):
            part[chance.choice((str(place) + "x", "module." + str(place), *KEYS))] = part.pop(place)
        case 2:
            part[place] = copy.deepcopy(part[chance.choice(places)])
        case _:
            part[place] = copy.deepcopy(chance.choice(ODD))


def _make(directory: Path, raw: dict[str, Any], shards: int) -> Path:
    return save(directory, raw, tensors_of(raw, directory), shards)


class Fuzz:
    """Directories to spoil, and what came of it."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.chance = home, random.Random(seed)
        self.sources = [_make(home / f"{raw['model_type']}{n}", raw, n) for raw in MODELS for n in (1, 2)]
        self.converted: list[Path] = []
        for source in self.sources:
            self.converted.append(home / f"{source.name}-ms")
            convert(source, self.converted[-1], progress=False)
        self.came: Counter[str] = Counter()

    def once(self) -> None:
        """One spoilt directory; anything but a result or a `MindPortError` is raised."""
        back = self.chance.random() < 0.4
        directory, out = self.home / "spoilt", self.home / "out"
        for path in (directory, out):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.chance.choice(self.converted if back else self.sources), directory)
        file = self._spoil(directory)
        try:
            self._use(directory, out, back)
            self.came[f"{file}: result"] += 1
        except MindPortError as error:
            assert error.what and not out.exists(), "an error left a target behind"
            self.came[f"{file}: {type(error).__name__}"] += 1

    def _spoil(self, directory: Path) -> str:
        files = sorted(directory.iterdir())
        path = self.chance.choice([*files, *(file for file in files if file.suffix == ".json")])
        edits: list[Edit] = [edit_bytes]
        if path.suffix == ".json":
            edits = [edit_config] * 3 if path.name == "config.json" else [edit_json] * 3
            edits.append(edit_bytes)
        self.chance.choice(edits)(path, self.chance)
        return "weights" if path.suffix == ".safetensors" else path.name

    def _use(self, directory: Path, out: Path, back: bool) -> None:
        if not back:
            inspect_config(directory).as_dict()
            padded = self.chance.choice((None, None, None, 41, 64, 0))  # 41 is what most of the models have
            report = convert(directory, out, padded_vocab=padded, progress=False)
            assert report.ok, report.headline()
            return
        assert sum(x.nbytes for x in load(directory).values()), "a model without numbers"
        convert(directory, out, to="huggingface", progress=False)


def fuzz(seconds: float, seed: int, home: Path) -> Counter[str]:
    """Spoil directories for some seconds.

    Returns:
        Counts of "file: what came of it".

    Raises:
        Exception: whatever escaped; the spoilt directory stays in `home / "spoilt"`.
    """
    run, end = Fuzz(home, seed), time.monotonic() + seconds
    while time.monotonic() < end:
        run.once()
    return run.came


def main() -> int:
    seconds = float(os.environ.get("FUZZ_SECONDS", "60"))
    seed = int(os.environ.get("FUZZ_SEED", str(time.time_ns() % 2**32)))
    home = Path(tempfile.mkdtemp(prefix="mindport-fuzz-"))
    try:
        came = fuzz(seconds, seed, home)
    except Exception:
        traceback.print_exc()
        print(f"escaped with FUZZ_SEED={seed}; the directory is {home / 'spoilt'}", file=sys.stderr)
        return 1
    shutil.rmtree(home)
    for what, count in sorted(came.items()):
        print(f"{count:7,}  {what}")
    print(f"{sum(came.values()):7,}  edits in {seconds:g} s, seed {seed}: results and typed errors only")
    return 0


if __name__ == "__main__":
    sys.exit(main())
