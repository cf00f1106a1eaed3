"""MindPort's GPT on several Ascend cards: strategies, pipeline stages and sharded optimizer states in a static graph.

Written for a layout by `mindport plan --out` and started by msrun; see launch.sh beside it. NOT VERIFIED ON A CARD:
where it was written it compiles as far as a CPU lets it, to MindSpore's own refusal of CPU as a backend.

    train_ascend.py --weights DIR [--tokens FILE.npy] [--steps N]

DIR is what `mindport convert` wrote, FILE holds int32 tokens, (samples, tokens of a sample); without it samples are
random, which is enough for a dry run and for the memory.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.communication import get_group_size, get_rank, init
from mindspore.dataset import GeneratorDataset
from mindspore.parallel.auto_parallel import AutoParallel
from mindspore.parallel.nn import GradAccumulation, Pipeline
from mindspore.train import CheckpointConfig, LossMonitor, Model, ModelCheckpoint

from mindport.model import GPT, NextTokenLoss, Precision, load_model
from mindport.model.kernels import override

# layout: begin
DP, TP, PP, ZERO = 1, 1, 1, 0
MICRO_BATCHES, BATCH, SEQ = 1, 1, 8  # samples of a micro-batch, tokens of a sample
RECOMPUTE = False
DTYPE = "float32"  # of what is computed; weights and moments stay float32
STAGES = (0,)  # of each layer
STRATEGIES = ()  # (cell, operator, how its inputs are split, how its output is, if that is fixed)
# layout: end

LEVELS = {1: "level1", 2: "level2", 3: "level3"}  # of AutoParallel.hsdp, by ZeRO stage
LR, WEIGHT_DECAY, BETAS, EPS = 1e-5, 0.01, (0.9, 0.95), 1e-8


def main() -> None:
    options = arguments()
    ms.set_context(mode=ms.GRAPH_MODE)
    init()
    if get_group_size() != DP * TP * PP:
        raise SystemExit(f"this layout is for {DP * TP * PP} processes, and there are {get_group_size()}")
    with override("linear", "reference"):  # a MatMul, which takes a strategy; no other path exists on Ascend
        model = load_model(options.weights, precision=None if DTYPE == "float32" else Precision("O2", DTYPE))
    split(model)
    network = parallel(model, Path("strategy"))
    decayed = nn.AdamWeightDecay(model.trainable_params(), LR, *BETAS, eps=EPS, weight_decay=WEIGHT_DECAY)
    kept = CheckpointConfig(save_checkpoint_steps=500, keep_checkpoint_max=2, integrated_save=False)
    saved = ModelCheckpoint("gpt", f"checkpoints/rank_{get_rank()}", kept)
    samples = dataset(options.tokens, options.steps, model.config.vocab_size)
    Model(network, optimizer=decayed).train(1, samples, [LossMonitor(1), saved], dataset_sink_mode=False)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", required=True, help="a directory that `mindport convert` wrote")
    parser.add_argument("--tokens", help="an .npy file of int32 (samples, tokens)")
    parser.add_argument("--steps", type=int, default=1000)
    return parser.parse_args()


def split(model: GPT) -> None:
    """Tell the operators of each layer how to split their inputs; the rest follows from them."""
    cells = dict(model.cells_and_names())
    for pattern, operator, inputs, output in STRATEGIES:
        for layer in range(len(STAGES) if "{}" in pattern else 1):
            cell = cells[pattern.format(layer)]
            primitive = cell.gather if operator == "Gather" else getattr(cell.linear, operators[operator])
            primitive.shard(inputs) if output is None else primitive.shard(inputs, output)
    if RECOMPUTE:
        model.recompute_blocks()


operators = {"MatMul": "matmul", "BiasAdd": "add"}


def stages(model: GPT) -> dict[str, int]:
    """The pipeline stage of each cell, by its name in the network that computes the loss."""
    ends = {"embed": 0, "position": 0, "rotary": 0, "dropout": 0, "norm": PP - 1, "head": PP - 1}
    cells = {f"model.{name}": stage for name, stage in ends.items() if hasattr(model, name)}
    return {**cells, **{f"model.blocks.{layer}": stage for layer, stage in enumerate(STAGES)}, "loss": PP - 1}


def parallel(model: GPT, directory: Path) -> AutoParallel:
    """The network that computes the loss, laid out."""
    network: nn.Cell = NextTokenLoss(model)
    if PP > 1:
        if model.config.tie_word_embeddings:
            model.embed.weight.add_pipeline_stage(0)
            model.embed.weight.add_pipeline_stage(PP - 1)
        network = Pipeline(network, MICRO_BATCHES, stages(model))
    elif MICRO_BATCHES > 1:
        network = GradAccumulation(network, MICRO_BATCHES)
    # without tensor parallelism everything is split along the samples, which is what operators do by themselves
    laid_out = AutoParallel(network, "semi_auto" if TP == 1 else "sharding_propagation")
    laid_out.dataset_strategy(((DP, 1), (DP, 1)))
    if ZERO:
        laid_out.hsdp(optimizer_level=LEVELS[ZERO])
    if PP > 1:
        laid_out.pipeline(stages=PP)
    directory.mkdir(exist_ok=True)
    laid_out.save_param_strategy_file(str(directory / f"rank_{get_rank()}.ckpt"))
    return laid_out


def dataset(tokens: str | None, steps: int, vocabulary: int) -> GeneratorDataset:
    """This rank's share of each batch; ranks that share a replica get the same samples."""
    rank, rows = get_rank() % (DP * TP) // TP, MICRO_BATCHES * BATCH
    table = None if tokens is None else np.load(tokens, mmap_mode="r")
    if table is not None and (table.ndim != 2 or table.shape[1] < SEQ or len(table) < DP * rows):
        raise SystemExit(f"{tokens}: {table.shape}, not at least ({DP * rows}, {SEQ})")

    def batches():
        random = np.random.default_rng(rank)
        for step in range(steps):
            if table is None:
                ids = random.integers(0, vocabulary, (rows, SEQ), dtype=np.int32)
            else:
                first = (step * DP + rank) * rows % (len(table) // (DP * rows) * DP * rows)
                ids = np.asarray(table[first : first + rows, :SEQ], np.int32)
            yield ids, ids

    return GeneratorDataset(batches, ["ids", "labels"])


if __name__ == "__main__":
    main()
