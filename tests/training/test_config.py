"""A training's configuration as a file: what is written is read back, and nothing wrong gets in."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.errors import ConfigError, FileError
from mindport.sources import corpus
from mindport.training.config import (
    DataConfig,
    MonitorConfig,
    ScheduleConfig,
    TrainConfig,
    check_model,
    complete,
    override,
    read_config,
    text_of,
    write_config,
)  # fmt: skip
from mindport.training.config.fields import Field, fields, from_dict, leaves, to_dict, with_value
from mindport.training.config.file import PATHS
from mindport.training.example import example
from mindport.training.start import described_model

DATA = Path(__file__).parents[2] / "data"
BASE = TrainConfig(model="tiny-gpt2", out="/runs/x", data=DataConfig(train=("/text/a.txt",)))
LEAVES = dict(leaves(BASE))


def write(tmp_path: Path, **changes: Any) -> Path:
    """A file with these lines in place of those of the least configuration."""
    lines = {"model": "tiny-gpt2", "out": "run", "data": "{train: [a.txt]}", **changes}
    (tmp_path / "train.yaml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()), "utf-8")
    return tmp_path / "train.yaml"


def field_of(path: str) -> Field:
    section, _, name = path.rpartition(".")
    return fields(type(getattr(BASE, section) if section else BASE))[name]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)


def values(path: str) -> st.SearchStrategy[Any]:
    """Values of a field within its range; of a path, what is one already."""
    field, words = field_of(path), TEXT
    if path in PATHS:
        words = TEXT.map(lambda text: str(Path("/", text.replace("/", "").replace(".", "") or "a").resolve()))
    low, high = (x if x is not None else d for x, d in ((field.range.at_least, -9), (field.range.below, 999)))

    def of(kind: Any) -> st.SearchStrategy[Any]:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Literal:
            return st.sampled_from(arguments)
        if origin is tuple and arguments[-1] is Ellipsis:
            return st.lists(of(arguments[0]), max_size=3, unique=True).map(tuple)
        if origin is tuple:
            return st.tuples(*map(of, arguments))
        if type(None) in arguments:
            return st.none() | of(arguments[0])
        numbers = {int: st.integers(math.ceil(low), int(high) - 1), float: st.floats(low, high, exclude_max=True)}
        return {str: words, bool: st.booleans(), **numbers}[kind].filter(
            lambda value: isinstance(value, (str, bool)) or field.range.holds(value)
        )

    return of(field.kind)


@st.composite
def configs(draw: st.DrawFn) -> TrainConfig:
    """Any configuration whose fields are right, each alone."""
    config = BASE
    for path in draw(st.lists(st.sampled_from(sorted(LEAVES)), unique=True)):
        config = with_value(config, path, draw(values(path)))
    return config


@settings(max_examples=40)
@given(configs())
def test_what_is_written_is_read_back(tmp_path_factory, config):
    path = write_config(config, tmp_path_factory.mktemp("c") / "train.yaml")
    try:
        back = read_config(path)
    except ConfigError as error:  # two fields disagree: the writer does not judge that, the reader does
        assert error.what != "a value of the configuration is not what it should be"
        return
    assert back == config == from_dict(TrainConfig, to_dict(config), "x")


@settings(max_examples=40)
@given(configs())
def test_other_readers_of_yaml_read_the_same(config):
    assert yaml.safe_load(text_of(config)) == to_dict(config)


def test_every_field_is_written_with_its_reason():
    text = text_of(BASE)
    for path in LEAVES:
        assert f"{path.rpartition('.')[2]}: " in text and f"# {field_of(path).reason}" in text
    hints = get_type_hints(TrainConfig, include_extras=True).values()
    assert all(get_origin(hint) is Annotated or dataclasses.is_dataclass(hint) for hint in hints)


@pytest.mark.parametrize(
    ("said", "value"), [("1e-4", 1e-4), ("2E+1", 20.0), ("1", 1.0), (".5", 0.5), ("1.", 1.0), ("3.4e38", 3.4e38)]
)
def test_a_number_may_be_written_as_people_write_it(tmp_path, said, value):
    config = read_config(write(tmp_path, optimizer=f"{{lr: {said}}}"))
    assert config.optimizer.lr == value and isinstance(config.optimizer.lr, float)
    assert override(BASE, [f"optimizer.lr={said}"]).optimizer.lr == value


WRONG = {  # what stands in the file: (where the message points, a word that it must have)
    "optimiser={}": ("train.yaml: optimiser", "optimizer"),
    "optimizer={lrr: 1}": ("train.yaml: optimizer.lrr", "did you mean lr?"),
    "optimizer={lr: '1e-4'}": ("train.yaml: optimizer.lr", "a number above 0"),
    "optimizer={lr: 0}": ("train.yaml: optimizer.lr", "above 0"),
    "optimizer={lr: .inf}": ("train.yaml: optimizer.lr", "above 0"),
    "optimizer={betas: [0.9]}": ("train.yaml: optimizer.betas", "a list of 2"),
    "optimizer={betas: [0.9, 1]}": ("train.yaml: optimizer.betas", "below 1"),
    "optimizer=3": ("train.yaml: optimizer", "lr, betas"),
    "steps=1e2": ("train.yaml: steps", "a whole number"),
    "steps=yes": ("train.yaml: steps", "a whole number"),
    "steps=true": ("train.yaml: steps", "a whole number"),
    "steps=012": ("train.yaml: steps", "a whole number"),
    "mode=Graph": ("train.yaml: mode", "graph or pynative"),
    "model=135": ("train.yaml: model", "quotes"),
    "checkpoints={best: no}": ("train.yaml: checkpoints.best", "true or false"),
    "data={train: a.txt}": ("train.yaml: data.train", "[a.txt]"),
    "data={train: [a.txt, a.txt]}": ("train.yaml: data", "twice"),
    "data={train: [a.txt], held_out: [./a.txt]}": ("train.yaml: data", "twice"),
    "data={train: []}": ("train.yaml: data.train", "mindport train --example"),
    "out=": ("train.yaml: out", "text"),
    "data={train: [a], layout: padded, buckets: [8, 4]}": ("train.yaml: data.buckets", "ascend"),
    "data={train: [a], layout: padded, buckets: [8, 999]}": ("train.yaml: data.buckets", "512"),
    "data={train: [a], buckets: [8]}": ("train.yaml: data.buckets", "padded"),
    "data={train: [a], held_out_share: 0}": ("train.yaml: data.held_out_share", "above 0"),
    "schedule={warmup: 300}": ("train.yaml: schedule.warmup", "300 of 300 steps"),
    "monitor={sample_every: 5}": ("train.yaml: monitor.prompts", "sample_every: 0"),
    "precision={level: O1, loss_scale: 0.5}": ("train.yaml: precision.loss_scale", "at least 1"),
    "precision={level: O1, loss_scale: 1e40}": ("train.yaml: precision.loss_scale", "float32"),
    "optimizer={eps: 1e-50}": ("train.yaml: optimizer.eps", "float32"),
    "steps=2147483648": ("train.yaml: steps", "int32"),
    f"optimizer={{lr: {'9' * 400}}}": ("train.yaml: optimizer.lr", "int32"),
}


def test_a_dataset_with_splits_may_be_named_on_both_sides(tmp_path):
    (tmp_path / "set").mkdir()
    line = "{train: [set], held_out: [set]}"
    with pytest.raises(ConfigError, match="twice"):
        read_config(write(tmp_path, data=line))
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert read_config(write(tmp_path, data=line)).data.held_out == (str(tmp_path / "set"),)


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_said_with_its_place(tmp_path, line):
    key, _, value = line.partition("=")
    with pytest.raises(ConfigError) as caught:
        read_config(write(tmp_path, **{key: value}))
    where, word = WRONG[line]
    assert str(caught.value.where).endswith(where) and word in str(caught.value)


@pytest.mark.parametrize("text", ["model: a\nmodel: b", "a: [", "- a", "1: 2", "a: &x 1\nb: *x", "a: !!python/none",
                                  "? [a]\n: b", "a: b: c", "model: {" * 3000])  # fmt: skip
def test_what_is_no_such_yaml_stops(tmp_path, text):
    (tmp_path / "t.yaml").write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / "t.yaml")
    assert str(tmp_path / "t.yaml") in str(caught.value) and len(str(caught.value)) < 1000


def test_a_file_that_is_not_there_stops(tmp_path):
    with pytest.raises(FileError, match="mindport train --example"):
        read_config(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"model: caf\xe9")
    with pytest.raises(FileError, match="cannot be read"):
        read_config(tmp_path / "latin.yaml")


def test_paths_begin_at_the_file_and_those_of_overrides_here(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    path = write(tmp_path / "sub", model="../m", out="run", data="{train: [../a.txt, ~/b, /c, corpus]}")
    config = read_config(path, ["data.held_out=[h.txt]"])
    assert (config.model, config.out) == (str(tmp_path / "m"), str(tmp_path / "sub" / "run"))
    assert config.data.train == (str(tmp_path / "a.txt"), str(Path.home() / "b"), "/c", str(corpus()))
    assert config.data.held_out == (str(Path.cwd() / "h.txt"),)
    assert read_config(write(tmp_path, model="tiny-gpt2")).model == "tiny-gpt2"


@pytest.mark.parametrize("given", ["optimizer.lrr=1", "lr=1", "optimizer=1", "steps", "steps=0", "steps.x=1", "=3",
                                   "steps=[", "optimizer.lr.x=1"])  # fmt: skip
def test_an_override_is_checked_like_the_file(given):
    with pytest.raises(ConfigError) as caught:
        override(BASE, [given])
    assert "--set" in str(caught.value.where)


def test_a_configuration_made_in_python_is_checked_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = dataclasses.replace(BASE, out="run", data=DataConfig(train=("corpus", "b.txt")))
    assert complete(made) == dataclasses.replace(
        made, out=str(tmp_path / "run"), data=DataConfig(train=(str(corpus()), str(tmp_path / "b.txt"))))  # fmt: skip
    for wrong in (
        {"steps": 0},
        {"steps": "8"},
        {"mode": "Graph"},
        {"model": ""},
        {"schedule": ScheduleConfig(warmup=300)},
    ):
        with pytest.raises(ConfigError, match="configuration"):
            complete(dataclasses.replace(BASE, **wrong))


def test_the_last_override_counts_and_all_are_checked_together(tmp_path):
    assert read_config(write(tmp_path), ["steps=5", "steps=7"]).steps == 7
    with pytest.raises(ConfigError, match="warm-up"):
        read_config(write(tmp_path), ["schedule.warmup=7", "steps=7"])


@pytest.mark.parametrize(("change", "good"), [
    ({"data": DataConfig(tokens=129)}, False), ({"data": DataConfig(tokens=128)}, True),
    ({"data": DataConfig(tokens=8), "monitor": MonitorConfig(sample_every=1, sample_tokens=128)}, False),
])  # fmt: skip
def test_the_configuration_is_held_to_the_model(change, good):
    config = dataclasses.replace(BASE, **change)
    model = described_model(config)[1]  # 128 positions
    if good:
        check_model(config, model, "t.yaml")
    else:
        with pytest.raises(ConfigError, match="128"):
            check_model(config, model, "t.yaml")


@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-llama"])
def test_the_example_is_a_configuration(tmp_path, model):
    path = tmp_path / "train.yaml"
    path.write_text(example(model).text(), "utf-8")
    config = read_config(path)
    check_model(config, described_model(config)[1], "t.yaml")
    assert config.model == model and config.out == str(tmp_path / "runs" / model)


@pytest.mark.parametrize("path", sorted((DATA / "training").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_ready_configurations_are_ones(path):
    config = read_config(path)
    assert all(Path(text).is_file() for text in config.data.train)
    if config.model != "smollm2":  # which has to be fetched
        check_model(config, described_model(config)[1], "t.yaml")
