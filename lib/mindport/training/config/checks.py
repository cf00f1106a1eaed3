"""What fields of a training's configuration ask of each other, and of the model."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from mindport.config import ModelConfig
from mindport.config.constraints import tensor_parallel
from mindport.errors import ConfigError
from mindport.training.config.fields import within
from mindport.training.config.train_config import DATASET_DICT, TrainConfig


def check(config: TrainConfig, where: str) -> None:
    """Hold the fields to each other.

    Args:
        config: what was read; each field alone is right.
        where: the file, for messages.

    Raises:
        ConfigError: two of them cannot be together, or what a training needs is not named.
    """
    _check_names(config, where)
    _check_buckets(config, where)
    _check_monitor(config, where)
    if config.batch.rows % config.parallel.dp:
        _refuse("the rows of a batch do not divide among the replicas", where, "batch.rows", got=config.batch.rows,
                expected=f"a multiple of parallel.dp, {config.parallel.dp}",
                do="each takes rows / dp of them; take more rows, or fewer replicas")  # fmt: skip
    if config.schedule.warmup >= config.steps:
        _refuse("the warm-up takes the whole run", where, "schedule.warmup",
                got=f"{config.schedule.warmup} of {config.steps} steps", expected="fewer than `steps`")  # fmt: skip


def check_model(config: TrainConfig, model: ModelConfig, where: str) -> None:
    """Hold the configuration to the model.

    Raises:
        ConfigError: the rows are longer than the model's context, or a sample would be; or processes cannot share it.
    """
    rule = tensor_parallel(model, config.parallel.tp, whole_vocabulary=True)
    if not rule.ok:
        _refuse("the model cannot be shared by so many processes", where, "parallel.tp",
                got=f"{config.parallel.tp}, with {rule.got}", expected=rule.expected, do=rule.do)  # fmt: skip
    context = model.max_position_embeddings
    if config.data.tokens > context:
        _refuse("rows are longer than the model's context", where, "data.tokens", got=config.data.tokens,
                expected=f"at most {context}, the model's max_position_embeddings")  # fmt: skip
    if config.monitor.sample_every and config.monitor.sample_tokens >= context:
        _refuse("a sample leaves no room for its prompt", where, "monitor.sample_tokens",
                got=config.monitor.sample_tokens,
                expected=f"below {context}, the model's max_position_embeddings")  # fmt: skip


def _check_names(config: TrainConfig, where: str) -> None:
    for name, value in (("model", config.model), ("out", config.out), ("data.train", config.data.train)):
        if not value:
            _refuse("the configuration does not say what every training needs", where, name, got="nothing",
                    do="mindport train --example tiny-gpt2 shows a whole configuration")  # fmt: skip
    train, held_out = config.data.train, config.data.held_out
    both = {name for name in train if name in held_out and not (Path(name) / DATASET_DICT).is_file()}
    repeated = {name for names in (train, held_out) for name in names if names.count(name) > 1}
    if twice := sorted(both | repeated):  # of a dataset with splits each side takes its own
        _refuse("a text is named twice", where, "data", got=twice[0],
                do="name it once: held-out text must not be learned from")  # fmt: skip


def _check_buckets(config: TrainConfig, where: str) -> None:
    buckets, tokens = config.data.buckets, config.data.tokens
    if buckets and config.data.layout == "packed":
        _refuse("packed rows have one length", where, "data.buckets", got=list(buckets), expected="[]",
                do="leave the buckets out, or set data.layout: padded")  # fmt: skip
    if list(buckets) != sorted(set(buckets)):
        _refuse("the buckets do not ascend", where, "data.buckets", got=list(buckets), expected=sorted(set(buckets)))
    if buckets and buckets[-1] > tokens:
        _refuse("a bucket is longer than a row", where, "data.buckets", got=buckets[-1],
                expected=f"at most data.tokens, {tokens}")  # fmt: skip


def _check_monitor(config: TrainConfig, where: str) -> None:
    if config.monitor.sample_every and not config.monitor.prompts:
        _refuse("samples are asked for, and there is nothing to continue", where, "monitor.prompts", got="[]",
                expected="texts", do="name some, or set monitor.sample_every: 0")  # fmt: skip


def _refuse(what: str, where: str, field: str, **rest: object) -> NoReturn:
    raise ConfigError(what, where=within(where, field), **rest)  # type: ignore[arg-type]
