"""Whether a run may go on from a checkpoint: what must be the same, what may differ, and what is said aloud."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mindport.config import ModelConfig, to_dict
from mindport.errors import UsageError, some
from mindport.results import plain
from mindport.training.checkpoint.read import Saved
from mindport.training.checkpoint.record import here
from mindport.training.config import TrainConfig

MAY_CHANGE = {
    "model": "a path; the model itself is compared",
    "out": "a path",
    "data.train": "paths; the tokens themselves are compared",
    "data.held_out": "paths; the tokens themselves are compared",
    "data.directory": "a path; the tokens themselves are compared",
    "data.workers": "the tokens do not depend on it",
    "checkpoints.*": "what is kept, and how often",
    "monitor.*": "what is watched, which leaves no trace in the weights",
}
SAID = {
    "mode": "graph and pynative differ in the last bits, so the run is not resumed bit for bit",
    "recompute": "another graph may differ in the last bits, so the run may not be resumed bit for bit",
    "parallel.dp": "other processes add up in another order, so the run is not resumed bit for bit",
    "parallel.tp": "other processes add up in another order, so the run is not resumed bit for bit",
    "parallel.bucket": "other messages may add up in another order, so the run may not be resumed bit for bit",
    "monitor.evaluate_rows": "losses on other text do not compare, so the best checkpoint may not be the best",
}
ONE_PROCESS = {"parallel.dp": 1, "parallel.tp": 1, "parallel.bucket": 16.0}  # before a configuration could say so
LONGER = "steps"  # only where the learning rate does not depend on it


@dataclass(frozen=True)
class Run:
    """The run that is to go on.

    Attributes:
        config: of it.
        model: what its `config.model` is.
        data: SHA-256 of the data's manifest.json.
        tokenizer: SHA-256 of tokenizer.json; empty where there is none.
        device: what computes.
    """

    config: TrainConfig
    model: ModelConfig
    data: str
    tokenizer: str
    device: str = "CPU"


def check_belongs(saved: Saved, run: Run) -> tuple[str, ...]:
    """Hold a checkpoint to the run that is to go on from it.

    Returns:
        Warnings, in words: what may keep the resumed run from being equal bit for bit.

    Raises:
        UsageError: model, data, tokenizer, or a field of the configuration that changes the course is another one.
    """
    _check_model(saved, run.model)
    for what, before, now in (
        ("tokenizer", saved.about.tokenizer, run.tokenizer),
        ("data", saved.about.data, run.data),
    ):
        if before != now:
            raise UsageError(f"the checkpoint was trained with another {what}", where=saved.path,
                             got=f"sha256 {now or 'none'}", expected=before or "none",
                             do=f"give the run the {what} that it began with, or begin another run")  # fmt: skip
    changed = check_course(saved.path, saved.about.config, run.config)
    return (*_said(changed), *_elsewhere(saved, run.device))


def check_course(path: Path, before: Mapping[str, Any], config: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Hold a checkpoint's configuration to that of the run that is to go on from it.

    Args:
        path: of the checkpoint.
        before: its configuration, as `About.config` has it.
        config: of the run.

    Returns:
        Field → (before, now), of those that may differ and are to be said.

    Raises:
        UsageError: a field differs that changes the course.
    """
    changed = _changed(before, config)
    free = {*SAID, *([LONGER] if config.schedule.shape == "constant" else [])}
    odd = {name: pair for name, pair in changed.items() if name not in free}
    if odd:
        raise UsageError(
            "the run cannot go on with another configuration: its course would be neither the old nor the new one",
            where=path, got=some([f"{name} = {now}" for name, (_, now) in odd.items()], 5),
            expected=some([f"{name} = {was}" for name, (was, _) in odd.items()], 5),
            do="set them back, or begin another run from these weights: model: " + str(path),
        )  # fmt: skip
    return changed


def _check_model(saved: Saved, model: ModelConfig) -> None:
    same = replace(model, dtype=saved.model.dtype)  # what the source's file was in; the training is in float32
    before, now = plain(to_dict(saved.model)), plain(to_dict(same))
    if odd := [f"{name} {now[name]}" for name in before if before[name] != now[name]]:
        raise UsageError("the checkpoint is of another model", where=saved.path, got=some(odd),
                         expected=some([f"{name} {before[name]}" for name in before if before[name] != now[name]]),
                         do="resume with the model that the run began with")  # fmt: skip


def _changed(told: Mapping[str, Any], config: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Field → (before, now), of those that differ and are not free to."""
    before, now = {**ONE_PROCESS, **dict(_leaves(told))}, dict(_leaves(plain(config)))
    names = (name for name in {**before, **now} if name in SAID or not any(fnmatch(name, x) for x in MAY_CHANGE))
    pairs = {name: (before.get(name, "nothing"), now.get(name, "nothing")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _said(changed: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    for name, why in SAID.items():
        if name in changed:
            before, now = changed[name]
            yield f"{name} was {before} and is {now}: {why}"


def _elsewhere(saved: Saved, device: str) -> Iterator[str]:
    """Another version or device computes the same to the last bits only by luck."""
    before, now = {**saved.record.versions, "device": saved.about.device}, {**here(), "device": device}
    for name in now:
        if before.get(name) != now[name]:
            yield (f"saved with {name} {before.get(name, 'unknown')}, resumed with {now[name]}: "
                   "equality bit for bit is not promised")  # fmt: skip


def _leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _leaves(item, f"{prefix}{name}.")
        else:
            yield prefix + name, item
