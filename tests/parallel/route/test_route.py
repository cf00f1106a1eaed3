"""The folder of a run: what msrun is told, what the YAML says, what is left to fill in; whole, or not there."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from mindport import cli
from mindport.errors import ConfigError, FileError, UsageError
from mindport.mindformers.layout import Layout
from mindport.mindformers.settings import layout_of
from mindport.parallel.plan import ESTIMATED, plan
from mindport.parallel.plan.measures import relief
from mindport.parallel.route import write_route
from mindport.parallel.route.scripts import LEVELS
from mindport.parallel.route.training import WEIGHTS
from mindport.parallel.variables import variables
from mindport.weights import convert
from tests.parallel.plan.models import job
from tests.weights.models import make

LAYOUT = Layout(dp=2, tp=2, pp=2, zero=1, sequence_parallel=True, micro_batches=3)
ALL = {"train.yaml", "train_mindformers.py", "train_ascend.py", "launch.sh", "dryrun.sh", "environment.sh",
       "checklist.md"}  # fmt: skip


def planned(layout: Layout = LAYOUT, **changes):
    return plan(job(host_size=4, devices=layout.devices, **changes), layout=layout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    report = write_route(planned(), tmp_path_factory.mktemp("route") / "run", hosts=2)
    assert report.ok and set(report.files) == ALL and report.hosts == 2 and not report.missing
    return report.directory


def started(folder: Path, script: str, *arguments: str, tmp: Path, **variables: str) -> list[list[str]]:
    """What msrun was called with: one list for each call."""
    fake = tmp / "bin" / "msrun"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text(f"#!/usr/bin/env bash\nprintf '%s\\0' \"$@\" END >> {tmp}/calls\n")
    fake.chmod(0o755)
    (tmp / "calls").write_text("")
    environment = {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}", **variables}
    done = subprocess.run([f"./{script}", *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    calls = (tmp / "calls").read_text().split("END\0")[:-1]
    return [call.split("\0")[:-1] for call in calls]


def test_msrun_is_told_the_hosts(folder, tmp_path):
    (call,) = started(folder, "launch.sh", "1", "10.0.0.7", tmp=tmp_path)
    said = dict(word.removeprefix("--").split("=") for word in call if word.startswith("--"))
    assert said == {"worker_num": "8", "local_worker_num": "4", "node_rank": "1", "master_addr": "10.0.0.7",
                    "master_port": "8118", "log_dir": "logs/host1", "join": "True",
                    "cluster_time_out": "1200"}  # fmt: skip
    assert call[-2:] == ["train_mindformers.py", "train.yaml"]
    (ours,) = started(folder, "launch.sh", "0", "h0", "9000", tmp=tmp_path, TRAIN="ours", WEIGHTS="/w x")
    assert ours[-3:] == ["train_ascend.py", "--weights", "/w x"] and "--master_port=9000" in ours


def test_a_host_is_asked_for(folder):
    done = subprocess.run(["./launch.sh"], cwd=folder, capture_output=True, text=True)
    assert done.returncode != 0 and "number of this host" in done.stderr


def test_one_process_a_stage_is_simulated(folder, tmp_path):
    calls = started(folder, "dryrun.sh", "0", tmp=tmp_path)
    assert [[word for word in call if "sim" in word] for call in calls] == [
        ["--sim_level=0", "--sim_rank_id=0"], ["--sim_level=0", "--sim_rank_id=4"]
    ]  # fmt: skip
    text = (folder / "dryrun.sh").read_text()
    assert all(f"#   {level}  {says}" in text for level, says in LEVELS.items()) and set(LEVELS) == {0, 1, 2, 3}


def test_only_variables_that_exist_are_set(folder):
    known = {variable.name: variable.verdict for variable in variables()}
    lines = (folder / "environment.sh").read_text().splitlines()
    named = [line.removeprefix("# ").split("=")[0].removeprefix("export ") for line in lines if "export" in line]
    unset = next(line for line in lines if line.startswith("unset")).partition("  #")[0].split()[1:]
    assert len(named) >= 7 and {known[name] for name in [*named, *unset]} <= {"exists", "of another layer"}


def test_the_yaml_is_the_plan_s(folder):
    text = (folder / "train.yaml").read_text()
    sections = yaml.safe_load(text)
    assert layout_of(sections) == LAYOUT and sections["runner_config"]["batch_size"] == 4
    assert sections["load_checkpoint"] == WEIGHTS and f"# To fill in: {WEIGHTS}" in text
    assert sections["context"]["max_device_memory"] == "59GB"
    assert sections["model"]["model_config"]["seq_length"] == 512


def test_every_file_says_that_it_was_not_run(folder):
    for name in ALL:
        head = (folder / name).read_text()[:700].lower()
        assert "not run here" in head or "not verified" in head or "no command below was run" in head, name
    for name in ("launch.sh", "checklist.md", "train.yaml", "environment.sh"):
        assert ESTIMATED in (folder / name).read_text()


def test_the_checklist_has_the_job_s_numbers(folder):
    text, found = (folder / "checklist.md").read_text(), planned()
    assert "{" not in text and f"{found.best.tokens_per_second:,.0f} tokens/s" in text
    sections = [line for line in text.splitlines() if line.startswith("## ")]
    assert sections == ["## To fill in", "## Before the start", "## Out of memory", "## It hangs", "## It is slow"]
    for step in relief(found.job, LAYOUT).steps:
        assert f"| {step.measure} | {step.layout} |" in text
    assert "-n 8 ./bin/all_reduce_test" in text and "fewer than 8 workers" in text


def test_the_checklist_runs_only_what_was_written(folder, tmp_path):
    row = "TRAIN=ours WEIGHTS=DIR ./launch.sh"
    assert f"`{row} HOST ADDRESS`" in (folder / "checklist.md").read_text()
    for layout in (Layout(dp=2, cp=2), Layout(dp=4, zero=3)):  # theirs alone, ours alone: there is no other to take
        write_route(planned(layout), tmp_path / str(layout))
        assert "TRAIN=" not in "".join(path.read_text() for path in (tmp_path / str(layout)).glob("*[dh]"))


def test_a_layout_that_fits_by_a_hair_says_so(tmp_path):
    found = planned()
    assert all(end.fits for end in found.ends)
    write_route(found, tmp_path / "roomy")
    over = replace(found.ends[0], constant="margin", value=0.15, fits=False)
    write_route(replace(found, ends=(*found.ends, over)), tmp_path / "tight")
    said = "no longer fits with margin 0.15,"
    assert said in (tmp_path / "tight" / "checklist.md").read_text()
    assert "no longer fits" not in (tmp_path / "roomy" / "checklist.md").read_text()


def test_what_is_to_be_filled_in_says_with_what(folder):
    text = (folder / "checklist.md").read_text()
    assert "`mindport convert DIR OUT --to mindformers-llama`" in text and "input_ids of 513 tokens" in text


def test_one_host_needs_no_network(folder, tmp_path):
    report = write_route(planned(Layout(dp=4, micro_batches=2)), tmp_path / "run")
    text = (tmp_path / "run" / "checklist.md").read_text()
    assert "hccn_tool" in (folder / "checklist.md").read_text()
    assert report.hosts == 1 and "hccn_tool" not in text and "launch.sh" not in dict(report.to_fill)
    (call,) = started(tmp_path / "run", "launch.sh", tmp=tmp_path)
    assert "--node_rank=0" in call and "--master_addr=127.0.0.1" in call


def test_relief_goes_on_from_the_layout():
    found = relief(job(global_batch=32), Layout(dp=4, tp=2, micro_batches=2))
    names = [step.measure for step in found.steps]
    assert names == ["half the micro-batch, twice as many", "one sample at a time", "selective recomputation",
                     "full recomputation", "sequence parallelism", "optimizer sharding (ZeRO-1)",
                     "gradients sharded too (ZeRO-2)", "twice the tensor parallelism",
                     "twice the pipeline stages"]  # fmt: skip
    assert found.start == "dp4,tp2,pp1,mb2" and found.steps[-1].needed < found.needed
    sharded = relief(job(), Layout(dp=4, tp=2, zero=2, recompute="full", micro_batches=6))
    assert not {"selective recomputation", "optimizer sharding (ZeRO-1)"} & {step.measure for step in sharded.steps}


def test_what_cannot_be_written_is_named(tmp_path):
    report = write_route(planned(Layout(dp=4, zero=3)), tmp_path / "zero3")
    assert "ZeRO-3" in report.missing["train.yaml"] and "train_ascend.py" in report.files and report.ok
    assert "train_mindformers" not in (tmp_path / "zero3" / "launch.sh").read_text()
    gpt = write_route(planned(Layout(dp=4), model="gpt"), tmp_path / "gpt")
    assert "no GPT-2" in gpt.headline() and "train.yaml" not in gpt.files
    ring = write_route(planned(Layout(dp=2, cp=2)), tmp_path / "cp")
    assert "train_ascend" not in (tmp_path / "cp" / "launch.sh").read_text() and "train_ascend.py" not in dict(
        ring.to_fill
    )
    assert "context parallelism" in ring.missing["train_ascend.py"] and "train.yaml" in ring.files
    assert ring.headline().count("dp2,tp1,pp1,cp2") == 1 and "·" not in ring.headline()
    assert "not written" in ring.text() and [p.state for p in ring.properties()] == ["not verified"]


def test_refusals_write_nothing(tmp_path):
    make(tmp_path / "hf", "llama", hidden_size=24)
    convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-llama", progress=False)
    convert(tmp_path / "hf", tmp_path / "ours", progress=False)
    out = tmp_path / "run"
    for error, words, given in (
        (UsageError, "do not fill", {"hosts": 3}),
        (ConfigError, "another model", {"weights": tmp_path / "mf"}),
        (FileError, "our own names", {"weights": tmp_path / "ours"}),
    ):
        with pytest.raises(error, match=words):
            write_route(planned(), out, **given)
        assert not out.exists()
    with pytest.raises(UsageError, match="nothing fits"):
        write_route(planned(settings={"memory": 1e-3}), out)
    with pytest.raises(UsageError, match="nothing can train"):  # launch.sh would start a file that is not there
        write_route(planned(Layout(dp=2, cp=2), model="gpt"), out)
    assert not out.exists()
    out.mkdir()
    (out / "mine").write_text("x")
    with pytest.raises(FileError):
        write_route(planned(), out)
    with pytest.raises(FileError, match="earlier result"):
        write_route(planned(), out, overwrite=True)
    assert [path.name for path in out.iterdir()] == ["mine"]
    write_route(planned(), tmp_path / "ran")
    (tmp_path / "ran" / "logs").mkdir()  # where launch.sh leaves them
    with pytest.raises(FileError, match="not of the plan") as refused:
        write_route(planned(), tmp_path / "ran", overwrite=True)
    assert refused.value.got == "logs" and (tmp_path / "ran" / "logs").is_dir()


def test_the_command_line(tmp_path, capsys):
    make(tmp_path / "hf", "llama", hidden_size=24, vocab_size=42)
    convert(tmp_path / "hf", tmp_path / "mf", to="mindformers-llama", progress=False)
    words = ["plan", str(tmp_path / "hf"), "--hosts", "2", "--host-size", "2", "--seq", "32", "--global-batch", "8",
             "--out", str(tmp_path / "run"), "--json"]  # fmt: skip
    assert cli.main([*words, "--weights", str(tmp_path / "mf")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["hosts"] == 2 and set(answer["files"]) == ALL and answer["plan"]["job"]["devices"] == 4
    sections = yaml.safe_load((tmp_path / "run" / "train.yaml").read_text())
    assert sections["load_checkpoint"] == str((tmp_path / "mf").resolve())
    assert str(layout_of(sections)) == answer["plan"]["best"]
    assert cli.main(["plan", str(tmp_path / "hf"), "--weights", str(tmp_path / "mf")]) == 2
    assert "add --out" in capsys.readouterr().err
    assert cli.main(words) == 2 and "run" in capsys.readouterr().err
    assert cli.main([*words, "--overwrite", "--layout", "dp4,zero1"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["best"] == "dp4,tp1,pp1,zero1"
    assert cli.main([*words[:10], "--set", "memory=1e-6", "--out", str(tmp_path / "none"), "--json"]) == 1
    assert not (tmp_path / "none").exists()
