"""How long Graph mode takes to compile a deep model, and what shortens it.

    python -m mindport.model.compile_time [--layers 30] [--json]

Each way runs in a process of its own on the shape of SmolLM2-135M, forward, 64 tokens; "compile" is the first call
minus the second. What was found with MindSpore 2.10 on a CPU, and why the model compiles plainly:

- `mindspore.lazy_inline` on the block: the default policy's graph is refused by the CPU backend ("must be a Primitive
  ValueNode"), and the policy "front" gains nothing.
- The compile cache brings a new process to its first result at once, but it does not know the model by its content:
  another theta, number of layers or sequence length gets the graph that is there, and wrong values or a crash. It is
  safe only with a directory that one configuration and one shape have for themselves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

from mindport.config import ModelConfig, Rope
from mindport.errors import BackendError
from mindport.results import Result
from mindport.tables import Table

TOKENS = 64
WAYS = ("plain", "lazy inline", "cache, first process", "cache, next process")


@dataclass(frozen=True)
class CompileTimes(Result):
    """Seconds for each way.

    Attributes:
        layers: of the model.
        rows: (way, seconds to compile, seconds of one forward pass afterwards).
    """

    layers: int
    rows: tuple[tuple[str, float, float], ...]

    @property
    def ok(self) -> bool:
        return bool(self.rows)

    def headline(self) -> str:
        seconds = {way: compile_ for way, compile_, _ in self.rows}
        lines = ", ".join(f"{way} {value:.1f} s" for way, value in seconds.items())
        return f"{self.layers} layers compile: {lines} (the cache is not safe: see the module's text)"

    def tables(self) -> tuple[Table, ...]:
        return (Table("Graph compile time", ("way", "compile / s", "forward / s"), self.rows),)


def compile_times(layers: int = 30) -> CompileTimes:
    """Measure every way, each in a fresh process.

    Raises:
        BackendError: one of the processes failed.
    """
    with tempfile.TemporaryDirectory() as cache:
        return CompileTimes(layers, tuple((way, *_in_process(way, layers, cache)) for way in WAYS))


def _in_process(way: str, layers: int, cache: str) -> tuple[float, float]:
    command = [sys.executable, __file__, "--layers", str(layers), "--way", way, "--cache", cache]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BackendError("the measuring process failed", where=way, got=done.stderr[-500:])
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def measure(way: str, layers: int, cache: str) -> tuple[float, float]:
    """Seconds to compile, and of one forward pass, in this process."""
    import mindspore as ms
    import numpy as np

    from mindport.model import gpt

    ms.set_context(mode=ms.GRAPH_MODE)
    if way.startswith("cache"):
        ms.set_context(enable_compile_cache=True, compile_cache_path=cache)
    if way == "lazy inline":
        gpt.Block.__init__ = ms.lazy_inline(policy="front")(gpt.Block.__init__)
    model = gpt.GPT(_smollm2(layers), lambda name, shape: np.full(shape, 0.01, np.float32))
    ids = ms.Tensor(np.arange(TOKENS, dtype=np.int32)[None])
    first, second = _seconds(model, ids), _seconds(model, ids)
    return round(first - second, 2), round(second, 3)


def _seconds(model: Any, ids: Any) -> float:
    start = time.perf_counter()
    model(ids).asnumpy()
    return time.perf_counter() - start


def _smollm2(layers: int) -> ModelConfig:
    return ModelConfig(
        model_type="llama", vocab_size=49152, hidden_size=576, num_hidden_layers=layers, num_attention_heads=9,
        num_key_value_heads=3, head_dim=64, intermediate_size=1536, max_position_embeddings=2048, hidden_act="silu",
        gated_mlp=True, norm="rms", norm_eps=1e-5, position="rope", rope=Rope(rope_theta=1e5), qkv_bias=False,
        attention_out_bias=False, mlp_bias=False, tie_word_embeddings=True,
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """The command; see the module's head."""
    parser = argparse.ArgumentParser(prog="python -m mindport.model.compile_time", description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--cache", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.way:
        print(json.dumps(measure(options.way, options.layers, options.cache)))
        return 0
    result = compile_times(options.layers)
    print(json.dumps(result.as_dict()) if options.json else result.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
