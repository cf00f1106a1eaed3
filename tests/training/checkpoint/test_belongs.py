"""A run goes on only from a checkpoint of its own; every field of the configuration is free, said aloud, or refused."""

from __future__ import annotations

import copy
import dataclasses
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from mindport.errors import UsageError
from mindport.results import plain
from mindport.training.checkpoint import MAY_CHANGE, Checkpoints, Run, Saved, check_belongs, read_checkpoint
from mindport.training.checkpoint.belongs import SAID, _leaves
from mindport.training.config import ScheduleConfig, TrainConfig
from tests.training.checkpoint.runs import CONFIG, snapshot

LEAVES = dict(_leaves(plain(TrainConfig())))
CHANGES_THE_COURSE = {
    "start", "steps", "seed", "dropout", "data.held_out_share", "data.column", "data.tokens", "data.layout",
    "data.buckets", "batch.rows", "batch.accumulate", "optimizer.lr", "optimizer.betas", "optimizer.eps",
    "optimizer.weight_decay", "optimizer.max_norm", "schedule.shape", "schedule.warmup", "precision.level",
    "precision.dtype", "precision.loss_scale", "precision.window",
}  # fmt: skip


def is_free(name: str) -> bool:
    return any(fnmatch(name, free) for free in MAY_CHANGE)


REFUSED = {name for name in LEAVES if name not in SAID and not is_free(name)}  # a new field is, until it is in a list


@pytest.fixture(scope="module")
def found(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    with Checkpoints(tmp_path_factory.mktemp("checkpoints"), source, asynchronous=False) as checkpoints:
        return read_checkpoint(checkpoints.save(snapshot(source, 5)).path)


def run(found: Saved, **changes: Any) -> Run:
    return Run(**{"config": CONFIG, "model": found.model, "data": "d" * 64, "tokenizer": "t" * 64, **changes})


def changed(name: str, value: Any, config: TrainConfig = CONFIG) -> TrainConfig:
    """The configuration with another value of a field, `part.field`."""
    part, _, field = name.rpartition(".")
    if not part:
        return dataclasses.replace(config, **{field: value})
    return dataclasses.replace(config, **{part: dataclasses.replace(getattr(config, part), **{field: value})})


def test_its_own_run_goes_on_without_a_word(found: Saved) -> None:
    assert check_belongs(found, run(found)) == ()
    assert check_belongs(found, run(found, model=dataclasses.replace(found.model, dtype="bfloat16"))) == ()


def test_what_changes_the_course_is_refused_and_the_lists_name_fields_that_are_there() -> None:
    assert CHANGES_THE_COURSE <= REFUSED
    assert SAID.keys() <= LEAVES.keys()
    assert not [free for free in MAY_CHANGE if not any(fnmatch(name, free) for name in LEAVES)]


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_another_value_is_free_said_or_refused(found: Saved, name: str) -> None:
    now = run(found, config=changed(name, "another"))
    if name in REFUSED:
        before = LEAVES[name] if name != "seed" else CONFIG.seed
        with pytest.raises(UsageError) as error:
            check_belongs(found, now)
        assert (error.value.got, error.value.expected) == (f"{name} = another", f"{name} = {before}")
        assert "begin another run from these weights" in str(error.value)
    else:
        said = check_belongs(found, now)
        assert [line.split(" was ")[0] for line in said] == [name] * (name in SAID)


def test_a_field_that_one_version_does_not_know_is_refused(found: Saved) -> None:
    config = copy.deepcopy(found.about.config)
    del config["optimizer"]["eps"]
    about = dataclasses.replace(found.about, config={**config, "momentum": 0.9})
    other = dataclasses.replace(found, record=dataclasses.replace(found.record, about=about))
    with pytest.raises(UsageError, match=r"momentum = nothing(.|\n)*optimizer\.eps = nothing") as error:
        check_belongs(other, run(other))
    assert "momentum = 0.9" in str(error.value)


def test_more_steps_where_the_rate_does_not_depend_on_them(source: Path, tmp_path: Path) -> None:
    constant = dataclasses.replace(CONFIG, schedule=ScheduleConfig(shape="constant"))
    with Checkpoints(tmp_path, source) as checkpoints:
        path = checkpoints.save(snapshot(source, 5, config=plain(constant))).path
    found = read_checkpoint(path)
    assert check_belongs(found, run(found, config=dataclasses.replace(constant, steps=900))) == ()


@pytest.mark.parametrize("what", ["tokenizer", "data"])
def test_other_tokens_are_refused(found: Saved, what: str) -> None:
    with pytest.raises(UsageError, match=rf"trained with another {what}(.|\n)*sha256 0000(.|\n)*begin another run"):
        check_belongs(found, run(found, **{what: "0" * 64}))


def test_another_model_is_refused(found: Saved) -> None:
    other = dataclasses.replace(found.model, norm_eps=1e-6)
    with pytest.raises(UsageError, match=r"another model(.|\n)*norm_eps 1e-06(.|\n)*norm_eps 1e-05"):
        check_belongs(found, run(found, model=other))


def test_another_place_is_said(found: Saved) -> None:
    record = dataclasses.replace(found.record, versions={**found.record.versions, "mindspore": "2.8.0"})
    said = check_belongs(dataclasses.replace(found, record=record), run(found, device="Ascend"))
    assert [line.split(",")[0] for line in said] == ["saved with mindspore 2.8.0", "saved with device CPU"]
    assert all("bit for bit is not promised" in line for line in said)
