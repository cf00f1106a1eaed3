"""The script for Ascend as far as a CPU can hold it: its syntax, its calls, and a run to MindSpore's own refusal."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mindport.errors import ConfigError, UsageError
from mindport.mindformers.layout import Layout
from mindport.parallel.ascend import ascend_script
from mindport.parallel.ascend.script import BEGIN, END, TEMPLATE
from mindport.parallel.plan import plan
from mindport.parallel.route import write_route
from mindport.weights import convert, open_converted
from tests.parallel.plan.models import GPT, LLAMA, job
from tests.weights.models import make

ROOT = Path(__file__).parents[3]
LAYOUT = Layout(dp=2, tp=2, pp=2, zero=1, sequence_parallel=True, recompute="full", micro_batches=2)
REFUSAL = re.compile(r"^Invalid (communication )?backend: CPU")


def values(text: str) -> dict[str, object]:
    """The constants between the marks."""
    space: dict[str, object] = {}
    exec(text.split(BEGIN)[1].split(END)[0], space)
    return space


def test_the_layout_is_in_the_script():
    text = ascend_script(LLAMA, LAYOUT, batch=3, seq=256, dtype="bfloat16")
    found = values(text)
    assert [found[name] for name in ("DP", "TP", "PP", "ZERO", "MICRO_BATCHES", "BATCH", "SEQ")] == [
        2,
        2,
        2,
        1,
        2,
        3,
        256,
    ]
    assert found["STAGES"] == (0, 0, 0, 0, 1, 1, 1) and found["RECOMPUTE"] is True and found["DTYPE"] == "bfloat16"
    assert ("blocks.{}.attn.o", "MatMul", ((2, 2), (1, 2)), ((4, 1),)) in found["STRATEGIES"]
    assert text.split(BEGIN)[0] == TEMPLATE.read_text().split(BEGIN)[0]
    ast.parse(text)


def test_what_our_model_does_not_have_is_refused():
    for layout, words in ((Layout(cp=2), "context"), (Layout(dp=2, recompute="selective"), "whole layers")):
        with pytest.raises(UsageError, match=words):
            ascend_script(LLAMA, layout)
    with pytest.raises(UsageError, match="loss scale"):
        ascend_script(LLAMA, Layout(dp=2), dtype="float16")
    with pytest.raises(ConfigError, match="do not divide"):
        ascend_script(GPT, Layout(tp=3))


@pytest.fixture(scope="module")
def child(tmp_path_factory) -> dict[str, object]:
    """One process looks at everything that needs MindSpore."""
    work = tmp_path_factory.mktemp("ascend")
    make(work / "hf", "llama", hidden_size=24, num_hidden_layers=2, vocab_size=42)
    convert(work / "hf", work / "ours", progress=False)
    config = open_converted(work / "ours").config
    script = work / "train_ascend.py"
    script.write_text(ascend_script(config, LAYOUT, batch=2, seq=16))
    route = write_route(plan(job(host_size=4), layout=Layout(dp=4, tp=2)), work / "run").directory
    commands = [words(route / name) for name in ("launch.sh", "dryrun.sh")]
    done = subprocess.run([sys.executable, "-m", "tests.parallel.ascend.child", script, work / "ours", "8"], cwd=ROOT,
                          input=json.dumps(commands), capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def words(script: Path) -> list[str]:
    """What msrun is given, with the shell's variables filled in by 1."""
    line = next(part for part in script.read_text().replace("\\\n", " ").splitlines() if "msrun --" in part)
    line = line.split("msrun ")[1].replace('"${train[@]}"', "train.py --x y")
    return re.sub(r'"?\$(\w+|\{\w+\})"?', "1", line).replace('"', "").split()


def test_its_calls_fit_the_installed_mindspore(child):
    assert child["signatures"] == []
    assert len(child["control"]) == 1 and "laid_out.hsdp" in child["control"][0]  # a call that does not fit is seen


def test_msrun_reads_what_it_is_given(child):
    launch, dryrun = child["msrun"]
    assert (launch["worker_num"], launch["local_worker_num"], launch["node_rank"], launch["join"]) == (8, 4, 1, True)
    assert (dryrun["sim_level"], dryrun["sim_rank_id"], dryrun["worker_num"], dryrun["local_worker_num"]) == (
        1,
        1,
        8,
        1,
    )
    assert launch["task_script"] == dryrun["task_script"] == "train.py" and launch["task_script_args"] == ["--x", "y"]


def test_it_ends_at_the_refusal_of_a_cpu_and_nowhere_earlier(child):
    kind, message, *frames = child["refusal"]
    assert kind == "RuntimeError" and REFUSAL.match(message), message[:500]
    assert frames.index("main") < frames.index("train") < frames.index("compile")  # laid out, made, and being compiled
    assert "step_parallel" in message or "pipeline_split" in message or "parallel" in message
