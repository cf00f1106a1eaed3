"""`make peer`: hold what we write for MindSpore Transformers to MindSpore Transformers itself.

    tiny models ── convert, export ──► weights, YAML ── probe.py, in the peer's environment ──► answers ──► docs

The environment is made once, in a cache folder; a cold import of the peer takes a quarter of a minute. `--json` and
`--page` say where the result goes.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from models import layout_cases, llama_cases, mcore_cases
from page import page

from mindport.config.targets import TARGETS
from mindport.files import read_json, write_json, write_text

HERE = Path(__file__).parent
LIMIT = 1e-5  # logits, float32
PEER = "mindformers==1.9.0"
PYNATIVE, GPT2 = "mindformers==2.0.0", "mindformers==1.3.2"
DEPENDENCIES = (
    "mindspore==2.10.0", "numpy<2", "transformers==4.57.1", "pyarrow==23.0.1", "nltk==3.9.1", "sentencepiece", "ftfy",
    "regex", "tqdm", "pyyaml", "jieba", "rouge_chinese", "opencv-python-headless", "astunparse", "tiktoken", "jinja2",
    "setproctitle", "safetensors", "tensorboardX", "deprecated", "pybind11", "datasets",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/mindport/peer")
    parser.add_argument("--json", type=Path, default=Path("runs/peer/peer.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/mindformers.md"))
    options = parser.parse_args()
    python = environment(options.cache)
    work = options.cache / "work"
    cases = make_cases(work, options.cache)
    result: dict[str, Any] = {"cases": dict.fromkeys(cases)}
    for kinds in (
        ("legacy", "refuses", "layout"),
        ("mcore", "pynative", "mcore layout"),
    ):  # use_legacy is decided once in a process
        write_json(work / "cases.json", {name: case for name, case in cases.items() if case["kind"] in kinds})
        run([str(python), str(HERE / "probe.py"), str(work / "cases.json"), str(work / "answers.json")], cwd=work)
        answers = read_json(work / "answers.json")
        result = {**result, "versions": answers["versions"], "cases": result["cases"] | answers["cases"]}
    result["cases"]["gpt2 names"] = gpt2_names(wheel(options.cache, GPT2))
    for answer in result["cases"].values():
        answer["ok"] = good(answer)
    result["ok"] = all(answer["ok"] for answer in result["cases"].values())
    write_json(options.json, result)
    write_text(options.page, page(result, PYNATIVE, GPT2))
    print(json.dumps(result, indent=2))
    return 0 if result["ok"] else 1


def environment(cache: Path) -> Path:
    """The peer's own Python, made on the first run."""
    python, mark = cache / "venv/bin/python", cache / "venv/complete"
    if not mark.exists():
        run([sys.executable, "-m", "venv", "--clear", str(cache / "venv")])
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        run([*pip, "--no-deps", PEER, "mindpet==1.0.4"])
        run([*pip, *DEPENDENCIES])
        mark.touch()
    return python


def wheel(cache: Path, requirement: str) -> Path:
    """The source of a release that cannot be installed here, unpacked from its wheel."""
    folder = cache / requirement
    if not folder.exists():
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest",
             str(cache), requirement])  # fmt: skip
        (file,) = cache.glob(requirement.replace("==", "-") + "-*.whl")
        with zipfile.ZipFile(file) as archive:
            archive.extractall(folder)
    return folder


def make_cases(work: Path, cache: Path) -> dict[str, dict[str, Any]]:
    """Weights and YAMLs of tiny models, as a user makes them."""
    cases = llama_cases(work) | mcore_cases(work)
    text = Path(cases["llama"]["yaml"]).read_text()
    spoiled = write_text(work / "spoiled.yaml", text.replace("\nparallel_config:", "\nparallel_config:\n  no_such: 1"))
    cases["control: an unknown key"] = {"kind": "refuses", "yaml": str(spoiled)}
    cases |= layout_cases(work)
    cases["qwen3, PyNative schema"]["source"] = str(wheel(cache, PYNATIVE))
    return cases


def gpt2_names(source: Path) -> dict[str, Any]:
    """Our names for GPT-2 against the lists of the peer's own converter, read and not run."""
    tree = ast.parse((source / "mindformers/models/gpt2/convert_weight.py").read_text())
    lists = {node.targets[0].id: ast.literal_eval(node.value) for node in tree.body
             if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
             and isinstance(node.value, ast.List)}  # fmt: skip
    theirs = {*lists["ms_name"], *lists["addition_mindspore"]} - {
        "backbone.blocks.{}.attention.beta", "backbone.blocks.{}.attention.masked_beta",  # the buffers of old files
    }  # fmt: skip
    ours = {row.foreign for row in TARGETS["mindformers-gpt2"].dialect.rows}
    return {"tensors": len(ours), "only ours": sorted(ours - theirs), "only theirs": sorted(theirs - ours)}


def good(answer: dict[str, Any]) -> bool:
    """Whether a case came out as it must; a control must fail."""
    lists = ("only ours", "only theirs", "of another shape", "different", "unknown sections")
    clean = not any(answer.get(name) for name in lists) and not any(answer.get("not loaded", ()))
    error = answer.get("max abs error of logits", 0.0)
    return "error" not in answer and clean and (error > 1e-3 if answer.get("control") else error <= LIMIT)


def run(command: list[str], cwd: Path | None = None) -> None:
    environment = {"OMP_NUM_THREADS": "1"} | dict(os.environ)
    environment.pop("PYTHONPATH", None)
    subprocess.run(command, check=True, cwd=cwd, env=environment, stdout=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
