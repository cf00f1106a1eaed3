"""`template.py` with a layout in it."""

from __future__ import annotations

from pathlib import Path

from mindport.config import ModelConfig
from mindport.errors import UsageError
from mindport.mindformers.layout import Layout
from mindport.mindformers.stages import stage_of
from mindport.parallel.ascend.strategies import strategies

TEMPLATE = Path(__file__).with_name("template.py")
BEGIN, END = "# layout: begin\n", "# layout: end\n"


def ascend_script(
    config: ModelConfig, layout: Layout, batch: int = 1, seq: int | None = None, dtype: str = "float32"
) -> str:
    """The script that trains our model under this layout.

    Args:
        config: the model.
        layout: all but context parallelism.
        batch: samples of a micro-batch.
        seq: tokens of a sample; None for the model's context.
        dtype: of what is computed, float32 or bfloat16; weights stay float32.

    Raises:
        ConfigError: the layout breaks a rule.
        UsageError: our model has no such parallelism.
    """
    layout.check(config, seq)
    if missing := unsupported(layout, dtype):
        raise UsageError("MindPort's own model has no such layout", got=layout, expected=missing)
    text = TEMPLATE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + _values(config, layout, batch, seq or config.max_position_embeddings, dtype) + END + after


def unsupported(layout: Layout, dtype: str = "float32") -> str:
    """What the script does not have of a layout or a precision; empty when it has all."""
    if dtype == "float16":
        return "bfloat16 or float32: float16 needs a loss scale, and the script has none"
    if layout.cp > 1:
        return "no context parallelism: its attention reads whole sequences"
    if layout.interleave > 1:
        return "no interleaved pipeline: a stage has one chunk of layers"
    return "recompute-full, or none: it computes whole layers again" if layout.recompute == "selective" else ""


def _values(config: ModelConfig, layout: Layout, batch: int, seq: int, dtype: str) -> str:
    rows = "".join(f"    {(s.cell, s.operator, s.inputs, s.output and (s.output,))},\n"
                   for s in strategies(config, layout)).replace("'", '"')  # fmt: skip
    return (
        f"DP, TP, PP, ZERO = {layout.dp}, {layout.tp}, {layout.pp}, {layout.zero}\n"
        f"MICRO_BATCHES, BATCH, SEQ = {layout.micro_batches}, {batch}, {seq}"
        "  # samples of a micro-batch, tokens of a sample\n"
        f"RECOMPUTE = {layout.recompute == 'full'}\n"
        f'DTYPE = "{dtype}"  # of what is computed; weights and moments stay float32\n'
        f"STAGES = {tuple(stage_of(config.num_hidden_layers, layout.pp))}  # of each layer\n"
        f"STRATEGIES = (  # (cell, operator, how its inputs are split, how its output is, if that is fixed)\n{rows})\n"
    )
