"""A training in one plain file: what is trained, on what, how, and what is left behind.

Every field has a default and, in its annotation, a reason; `write_config` puts that beside the value. Numbers have the
range there, too, in which they make sense; `file` holds a file to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from mindport.training.config.ranges import COUNT, NOT_NEGATIVE, POSITIVE, SEED, SHARE, Range

Start = Literal["pretrained", "scratch"]
Mode = Literal["graph", "pynative"]
Layout = Literal["packed", "padded"]
Shape = Literal["constant", "linear", "cosine"]

DATASET_DICT = "dataset_dict.json"  # in a folder of several splits, of which each side of the data takes its own
Level = Literal["O0", "O1", "O2"]
Dtype = Literal["float16", "bfloat16"]


@dataclass(frozen=True)
class DataConfig:
    """Which text, and how it becomes rows of tokens."""

    train: Annotated[tuple[str, ...], "files (.txt, .jsonl), datasets on disk, or bundled: corpus, questions"] = ()
    held_out: Annotated[tuple[str, ...], "text that is only measured; none: a share of the training text"] = ()
    held_out_share: Annotated[
        float, "of the documents, where no held-out text is named; chosen by the seed", Range(above=0, below=1)
    ] = 0.05
    column: Annotated[str, "of JSONL and datasets: the text; to fine-tune `messages`, or `prompt,completion`"] = "text"
    tokens: Annotated[int, "of a row; fixed, so that one graph serves for all steps", Range(at_least=2)] = 512
    layout: Annotated[Layout, "packed: documents end to end, no padding; padded: a document a row"] = "packed"
    buckets: Annotated[
        tuple[int, ...], "lengths of padded rows, the shortest that fits; each is a graph to compile", Range(at_least=2)
    ] = ()
    unique: Annotated[bool, "of documents with the same text, the first one is taken"] = False
    directory: Annotated[str, "where the tokens are kept; empty: `data` in the run's directory"] = ""
    workers: Annotated[int, "processes that tokenise; 0: one for each core", NOT_NEGATIVE] = 0


@dataclass(frozen=True)
class BatchConfig:
    """How many rows a step takes, and in how many pieces."""

    rows: Annotated[int, "of one forward and backward pass, over all replicas: memory grows with it", COUNT] = 8
    accumulate: Annotated[int, "passes whose gradients are added up, by tokens, before the weights move", COUNT] = 1


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW, as torch.optim.AdamW computes it; matrices decay, norms and biases do not."""

    lr: Annotated[float, "the rate after the warm-up; 2e-5 is usual for fine-tuning", POSITIVE] = 3e-4
    betas: Annotated[tuple[float, float], "of the means of the gradient and of its square", SHARE] = (0.9, 0.95)
    eps: Annotated[float, "added to the root of the second mean", POSITIVE] = 1e-8
    weight_decay: Annotated[float, "share of a matrix, times the rate, that a step takes away", NOT_NEGATIVE] = 0.1
    no_decay: Annotated[tuple[str, ...], "patterns of weights that do not decay either: embed.weight, blocks.0.*"] = ()
    max_norm: Annotated[float | None, "gradients are clipped to this norm; null: measured, not clipped", POSITIVE] = 1.0


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate's course, as the schedule of the same name in transformers."""

    shape: Annotated[Shape, "after the warm-up: constant, linear or cosine down to 0 at the last step"] = "cosine"
    warmup: Annotated[int, "steps in which the rate rises from 0; 1 to 2 % of the run is usual", NOT_NEGATIVE] = 0


@dataclass(frozen=True)
class PrecisionConfig:
    """What is computed in which precision; weights and optimizer state are float32 always."""

    level: Annotated[Level, "O0: float32; O1: products in `dtype`; O2: all but norms, softmax and loss"] = "O0"
    dtype: Annotated[Dtype, "of O1 and O2: float16, with a loss scale, or bfloat16, without (not on a CPU)"] = "float16"
    loss_scale: Annotated[float, "to begin with; halved after an overflow (float16 only)", COUNT] = 65536.0
    window: Annotated[int, "steps without overflow after which the loss scale doubles", COUNT] = 2000


@dataclass(frozen=True)
class CheckpointConfig:
    """What survives the end of the process."""

    every: Annotated[int, "steps between checkpoints; 0: one at the end", NOT_NEGATIVE] = 100
    keep: Annotated[int, "of the newest ones are kept; older ones go", COUNT] = 2
    best: Annotated[bool, "the one with the best held-out loss is kept besides"] = True
    asynchronous: Annotated[bool, "written by a thread while the training goes on"] = True
    sharded: Annotated[bool, "each process writes its own share of the weights; false: the first writes all"] = False


@dataclass(frozen=True)
class MonitorConfig:
    """What is watched."""

    every: Annotated[int, "steps between lines of the log", COUNT] = 10
    evaluate_every: Annotated[int, "steps between measurements on held-out text; 0: first and last", NOT_NEGATIVE] = 100
    evaluate_rows: Annotated[int, "of held-out text that a measurement takes", COUNT] = 64
    sample_every: Annotated[int, "steps between samples of what the model writes; 0: none", NOT_NEGATIVE] = 0
    prompts: Annotated[tuple[str, ...], "what the samples continue"] = ()
    sample_tokens: Annotated[int, "of a sample", COUNT] = 32
    tensorboard: Annotated[bool, "write event files for TensorBoard as well"] = True


@dataclass(frozen=True)
class ParallelConfig:
    """Over how many processes a step is spread; dp · tp of them, each a rank."""

    dp: Annotated[int, "replicas of the model: each takes rows / dp of a batch", COUNT] = 1
    tp: Annotated[int, "processes that share a replica's heads, MLP and vocabulary", COUNT] = 1
    bucket: Annotated[
        float, "MiB of gradients that replicas add up in one message; 0: each weight alone", NOT_NEGATIVE
    ] = 16.0


@dataclass(frozen=True)
class TrainConfig:
    """A training."""

    model: Annotated[str, "a Hugging Face directory, a directory that `mindport convert` wrote, or a bundled name"] = ""
    out: Annotated[str, "where the run is left"] = ""
    start: Annotated[Start, "pretrained: the model's weights; scratch: random ones, by the seed"] = "pretrained"
    steps: Annotated[int, "times that the weights move", COUNT] = 300
    seed: Annotated[int, "of the order of the data, the dropout and random weights", SEED] = 20251
    mode: Annotated[Mode, "graph: compiled, fast; pynative: a cell at a time, to debug"] = "graph"
    recompute: Annotated[bool, "blocks are computed again in the backward pass: less memory, more time"] = False
    dropout: Annotated[float | None, "in place of the model's own; 0 to compare with another framework", SHARE] = None
    data: DataConfig = field(default_factory=DataConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    monitor: MonitorConfig = field(default_factory=MonitorConfig)
