"""docs/traces.md says what is so: its commands run, its keys are the manifest's, its limits the table's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mindport import cli, sources
from mindport.errors import FileError
from mindport.parity import verify
from mindport.parity.trace import MANIFEST
from mindport.tracing import names, script
from mindport.tracing.limits import BASE, BLIND
from mindport.tracing.recorder import MOST
from tests.tracing.test_script import order

PAGE = (Path(__file__).parents[2] / "docs/traces.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)


def block(beginning: str) -> str:
    return next(text for _, text in BLOCKS if text.startswith(beginning))


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The page's two files, traced here by what the process of its own would run."""
    monkeypatch.chdir(tmp_path)
    for name in ("demo_torch.py", "demo_mindspore.py"):
        Path(name).write_text(block(f"# {name}"), encoding="utf-8")
    for framework in ("torch", "mindspore"):
        script.run(order(f"demo_{framework}.py", "build", f"traces/{framework}", framework))
    return tmp_path


def test_its_commands_do_what_it_says(example, capfd):
    commands = [line.split()[1:] for line in block("mindport trace demo_torch").splitlines()]
    for command in commands:
        assert cli._parser().parse_args(command)
    assert cli.main(commands[-1]) == 1
    out = capfd.readouterr().out
    assert out.startswith("first divergence: out/norm ↔ out/ln") and "the module itself" in out


def test_its_keys_are_those_of_the_manifest(example):
    rows = re.search(r"\| key \| what \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE)[1].splitlines()
    said = {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    reference = {"source", "model", "whole", "tensors", "tokens", "layer"}
    for framework in ("torch", "mindspore"):
        assert json.loads(Path(f"traces/{framework}", MANIFEST).read_text()).keys() == said - reference


def test_its_limits_are_those_of_the_table():
    rows = dict(re.findall(r"^\| (float32|float16|bfloat16) \| (.*?) \|$", PAGE, re.MULTILINE))
    assert rows == {name: f"{BASE[name]:g} | {BLIND * BASE[name]:g}" for name in rows} and len(rows) == 3
    assert MOST == 4 << 30 and "4 GiB" in PAGE


def test_its_rules_are_rules(tmp_path):
    (tmp_path / "names.yaml").write_text(block("encoder.layers"), encoding="utf-8")
    assert [str(rule) for rule in names.read_rules([str(tmp_path / "names.yaml")])] == [
        "encoder.layers.{i}=blocks.{i}", "self_attn=attn", ".[logits]=.[0]", "conv{i}=stem.{i}@NCHW->NHWC"
    ]  # fmt: skip
    for alias in names.ALIASES:
        assert f"`{alias}`" in PAGE


def test_a_modules_trace_is_no_reference_for_verify(example):
    with pytest.raises(FileError, match="not of a Hugging Face directory"):
        verify(sources.resolve("tiny-gpt2"), trace=example / "traces/torch", progress=False)
