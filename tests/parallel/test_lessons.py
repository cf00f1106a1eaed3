"""The lessons of notebook 06, as far as they need no processes; the notebook runs them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from mindport.errors import UsageError
from mindport.mindformers import parse_layout
from mindport.parallel import plan
from mindport.parallel.lessons import Crash, crash_and_resume, layouts_for, plan_that_runs
from mindport.parallel.plan.published import published_model
from mindport.training.config import read_config
from mindport.training.data.prepared import Prepared
from mindport.training.kill_test.comparison import Comparison
from tests.training.runs import SHAPE, write

SAME, OTHER = Comparison(8, 2, 5, ()), Comparison(8, 2, 5, ("step 4",))


@pytest.mark.parametrize(("saved", "comparison", "ok"), [(4, SAME, True), (0, SAME, False), (4, OTHER, False)])
def test_a_crash_is_survived_with_a_checkpoint_and_an_equal_run(saved, comparison, ok):
    crash = Crash(1, 6, "said", saved, comparison, Path("step-00000008"), "Ascend")
    (line,) = crash.properties()
    assert crash.ok is ok and line.state == ("verified" if ok else "failed") and line.backend == "Ascend"
    assert f"resumed after step {saved}" in crash.headline()


@pytest.mark.parametrize("asked", [{"rank": 2}, {"rank": -1}, {"step": 21}, {"step": 0}])
def test_a_crash_that_cannot_happen_is_refused_before_anything_starts(asked, tmp_path):
    with pytest.raises(UsageError, match="nothing to lose there"):
        crash_and_resume(tmp_path / "crashed", **asked)
    assert not (tmp_path / "crashed").exists()


def test_what_is_resumed_from_is_what_the_crash_left_not_what_the_resume_wrote(monkeypatch, tmp_path):
    def saved(config, step):
        path = Path(config.out) / f"checkpoints/step-{step:08d}"
        path.mkdir(parents=True)
        return path

    def train(config, **how):
        return SimpleNamespace(checkpoints=(saved(config, 20),), device="CPU") if how.get("resume") else None

    def fail(launch):
        saved(SimpleNamespace(out=tmp_path / "out/disturbed"), 10)
        return "said"

    module = importlib.import_module("mindport.parallel.lessons.crash")
    for name, fake in {"train": train, "_crash": fail, "compare_runs": lambda a, b: SAME}.items():
        monkeypatch.setattr(module, name, fake)
    crash = crash_and_resume(tmp_path / "out")
    assert (crash.checkpoint, crash.newest.name) == (10, "step-00000020")


def test_tensor_parallelism_is_offered_where_heads_divide_whatever_the_vocabulary(tmp_path):
    config = read_config(write(tmp_path / "it"))
    description = tmp_path / "it/model/config.json"
    for change, meant in (({"vocab_size": 513}, ["dp2", "tp2"]), ({"n_head": 3, "n_inner": 21}, ["dp2", "tp3"]),
                          ({"n_head": 1}, ["dp2"])):  # fmt: skip
        description.write_text(json.dumps(SHAPE | change), "utf-8")
        assert layouts_for(config) == meant
    assert layouts_for(config, "tp2  dp2,tp2") == ["tp2", "dp2,tp2"]


def test_the_plan_that_runs_is_the_first_that_every_file_can_say(monkeypatch):
    job = plan.Job(published_model("LLaMA2-7B"), plan.hardware("910B"), devices=8, seq=4096, global_batch=16)
    ranked = [("dp4,cp2", "yes"), ("dp4,pp2,v2,mb4", "yes"), ("dp8,recompute-selective", "yes"), ("dp8,zero3", "no"),
              ("dp4,tp2,zero1", "yes"), ("dp8", "yes")]  # fmt: skip
    rows = [SimpleNamespace(layout=parse_layout(text), expressible=said) for text, said in ranked]
    monkeypatch.setattr(plan, "plan", lambda job, keep=0, layout=None: layout or SimpleNamespace(ranked=rows))
    assert plan_that_runs(job) == parse_layout("dp4,tp2,zero1")
    del rows[4:]
    with pytest.raises(UsageError, match="said by every file"):
        plan_that_runs(job)


def test_replicas_that_nobody_told_their_rank_read_the_rows_of_the_first(monkeypatch):
    asked = []
    monkeypatch.setattr(Prepared, "batches", lambda self, split, rows, **rest: asked.append((rows, rest)))
    module = importlib.import_module("mindport.parallel.lessons.unsharded")  # the name is the function's, too
    monkeypatch.setattr(module, "train_one", lambda path: Prepared.batches(None, "train", 8, rank=1, ranks=2, seed=3))
    module.train_each(["a.yaml"])
    assert asked == [(8, {"rank": 0, "ranks": 2, "seed": 3})]
