"""A directory that `convert` wrote for MindSpore Transformers → the YAML that trains it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.config.constraints import Constraint
from mindport.config.targets import MINDSPORE, target_for
from mindport.errors import ConfigError, FileError, UsageError
from mindport.files import read_json, write_text
from mindport.mindformers.data import UNKNOWN
from mindport.mindformers.graph import graph
from mindport.mindformers.layout import Layout, parse_layout
from mindport.mindformers.networks import check_network, is_legacy
from mindport.mindformers.pynative import pynative
from mindport.mindformers.recipe import Recipe
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
        layout: degrees of data, tensor and pipeline parallelism.
        schema: "graph" or "pynative".
        recipe: optimizer, schedule and the rest; None for a starting point.

    Raises:
        FileError: not such a directory, or changed since.
        ConfigError: the layout does not divide the model, or no network of the schema trains it.
        UsageError: no such layout, schema or sequence length.
    """
    directory, yaml, recipe = Path(directory).resolve(), Path(yaml), recipe or Recipe()
    if schema not in SCHEMAS:
        raise UsageError("no such schema", got=repr(schema), expected=", ".join(SCHEMAS))
    degrees, manifest = parse_layout(layout), open_converted(directory).manifest
    config, target = manifest.model, target_for(manifest.target)
    if target == MINDSPORE:
        raise FileError("these weights carry our own names, not MindSpore Transformers'", where=directory,
                        do="mindport convert DIR OUT --to mindformers-llama (or -mcore), then export OUT")  # fmt: skip
    check_network(config, target)
    if NAME in manifest.files:
        raise UsageError("the YAML loads safetensors", where=directory, got=NAME, do="convert without --format ckpt")
    if degrees != Layout(degrees.dp, degrees.tp, degrees.pp):
        raise UsageError("the YAML is written for degrees of data, tensor and pipeline parallelism", got=degrees,
                         expected="dp, tp and pp only", do="set the rest in the YAML by hand")  # fmt: skip
    rules = degrees.check(config)
    if schema == "graph":
        sections = graph(directory, config, target, degrees, recipe)
    elif is_legacy(target):
        raise ConfigError("the PyNative schema has no legacy networks", got=target.name,
                          expected="mindformers-mcore", do="take --schema graph")  # fmt: skip
    else:
        raw = read_json(directory / "config.json")
        sections = pynative(directory, config, raw, degrees, recipe)
    write_text(yaml, _text(sections, schema))
    notes = (_START, *([_DATA] if recipe.data == UNKNOWN else []))
    return ExportReport(yaml, directory, target.name, schema, degrees, rules, sections, notes)


def _text(sections: dict[str, Any], schema: str) -> str:
    import yaml

    head = f"# Written by `mindport export`: {schema} schema, {SCHEMAS[schema]}.\n"
    return head + yaml.safe_dump(sections, sort_keys=False, allow_unicode=True)
