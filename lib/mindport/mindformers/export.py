"""A directory that `convert` wrote for MindSpore Transformers → the YAML that trains it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindport.config.constraints import Constraint
from mindport.config.model_config import ModelConfig
from mindport.config.targets import MINDSPORE, Target, target_for
from mindport.errors import ConfigError, FileError, UsageError
from mindport.files import read_json, write_text
from mindport.mindformers.data import UNKNOWN
from mindport.mindformers.graph import graph
from mindport.mindformers.layout import Layout, parse_layout
from mindport.mindformers.networks import check_network, is_legacy
from mindport.mindformers.pynative import pynative
from mindport.mindformers.recipe import Recipe
from mindport.mindformers.settings import unsaid
from mindport.results import Result
from mindport.tables import Table
from mindport.weights import open_converted
from mindport.weights.checkpoint import NAME

SCHEMAS = {"graph": "mindformers 1.9 to 2.1", "pynative": "mindformers 2.x"}
_DATA = "train_dataset names no data yet: pass --data, or edit the YAML"
_START = "optimizer, schedule and batch are a starting point: edit the YAML"


@dataclass(frozen=True)
class ExportReport(Result):
    """The YAML that was written.

    Attributes:
        yaml: the file.
        directory: the converted weights that it names.
        target: whose names the weights carry.
        schema: "graph" or "pynative".
        layout: degrees of parallelism.
        constraints: what the layout asks of the model, and that it holds.
        sections: the content.
        notes: what is left to the user.
    """

    yaml: Path
    directory: Path
    target: str
    schema: str
    layout: Layout
    constraints: tuple[Constraint, ...]
    sections: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return all(constraint.ok for constraint in self.constraints)

    def headline(self) -> str:
        return (
            f"{self.yaml}: {self.schema} schema ({SCHEMAS[self.schema]}) for {self.layout.devices} device(s), "
            f"{self.layout}, {self.target}"
        )

    def tables(self) -> tuple[Table, ...]:
        rows = [(name, value) for name, value in self.sections.items() if not isinstance(value, (dict, list))]
        rows += [(name, ", ".join(value)) for name, value in self.sections.items() if isinstance(value, dict)]
        rules = [(c.name, c.state, c.got, c.expected) for c in self.constraints]
        return (
            Table("Layout", ("rule", "state", "got", "expected"), rules),
            Table("Sections", ("section", "value, or keys"), rows),
            Table("Left to you", ("note",), [(note,) for note in self.notes]),
        )


def export(
    directory: Path | str, yaml: Path | str, layout: str = "dp1,tp1,pp1", schema: str = "graph",
    recipe: Recipe | None = None,
) -> ExportReport:  # fmt: skip
    """Write the YAML of a directory that `convert(…, to="mindformers-…")` made; config.json already lies there.

    Args:
        directory: the converted weights; the YAML names it as an absolute path.
        yaml: the file to write.
        layout: all of it, as `parse_layout` reads it; of a pipeline that says no mb, as many as stages.
        schema: "graph" or "pynative".
        recipe: optimizer, schedule and the rest; None for a starting point.

    Raises:
        FileError: not such a directory, or changed since.
        ConfigError: the layout does not divide the model, or no network of the schema trains it.
        UsageError: no such layout, schema or sequence length, or the schema cannot say that layout.
    """
    directory, yaml, recipe = Path(directory).resolve(), Path(yaml), recipe or Recipe()
    if schema not in SCHEMAS:
        raise UsageError("no such schema", got=repr(schema), expected=", ".join(SCHEMAS))
    degrees, manifest = _filled(parse_layout(layout)), open_converted(directory).manifest
    config, target = manifest.model, target_for(manifest.target)
    if target == MINDSPORE:
        raise FileError("these weights carry our own names, not MindSpore Transformers'", where=directory,
                        do="mindport convert DIR OUT --to mindformers-llama (or -mcore), then export OUT")  # fmt: skip
    check_network(config, target)
    if NAME in manifest.files:
        raise UsageError("the YAML loads safetensors", where=directory, got=NAME, do="convert without --format ckpt")
    rules = degrees.check(config, recipe.context(config.max_position_embeddings))
    if schema == "pynative" and is_legacy(target):
        raise ConfigError("the PyNative schema has no legacy networks", got=target.name,
                          expected="mindformers-mcore", do="take --schema graph")  # fmt: skip
    sections = content(directory, config, target, degrees, recipe, schema)
    write_text(yaml, as_text(sections, schema))
    notes = (_START, *([_DATA] if recipe.data == UNKNOWN else []))
    return ExportReport(yaml, directory, target.name, schema, degrees, rules, sections, notes)


def content(
    directory: Path, config: ModelConfig, target: Target, layout: Layout, recipe: Recipe, schema: str = "graph"
) -> dict[str, Any]:  # fmt: skip
    """The sections of the YAML; the PyNative schema reads `directory`.

    Raises:
        UsageError: the schema cannot say that layout.
    """
    if missing := unsaid(layout, schema):
        raise UsageError("no YAML says this layout", where=f"the {schema} schema", got=layout, expected=missing)
    if schema == "graph":
        return graph(directory, config, target, layout, recipe)
    return pynative(directory, config, read_json(directory / "config.json"), layout, recipe)


def _filled(layout: Layout) -> Layout:
    """A pipeline that says nothing of micro-batches gets as many as it has stages."""
    return replace(layout, micro_batches=layout.pp) if layout.micro_batches == 1 else layout


def as_text(sections: dict[str, Any], schema: str = "graph", remarks: tuple[str, ...] = ()) -> str:
    """The sections as YAML; remarks stand in its head."""
    import yaml

    lines = (f"Written by `mindport export`: {schema} schema, {SCHEMAS[schema]}.", *remarks)
    head = "".join(f"# {line}\n" for line in lines)
    return head + yaml.safe_dump(sections, sort_keys=False, allow_unicode=True)
