"""Every benchmark in tiny, from end to end: ours, torch and the translations compute the same; a fault is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindport.tuning import attention, bench, knobs, layer, shapes, step
from mindport.tuning.contestant import Contestant
from mindport.tuning.peers import NAIVE, OURS, TORCH
from mindport.tuning.race import Plan, race

pytestmark = pytest.mark.slow
PLAN = Plan.of(1.0, step.LIMITS, {}, quick=True, warm_up=shapes.STEPS)


def test_attention():
    made = bench("attention", quick=True)
    (case,) = made.cases
    assert made.ok and list(case.timings) == ["mindport", "torch SDPA", "torch matmul"]
    assert {row.value for row in case.numerics} == {"dq", "dk", "dv"}
    assert [row[0] for row in case.about["mindport"]["kernels"]] == ["attention"]


def test_attention_with_a_wrong_scale_is_no_result():
    settings = {**attention.QUICK, "backward": False}
    contestants = [Contestant("mindport", OURS, "attention", {**settings, "scale": 0.26}),  # 0.25 would be right
                   Contestant("torch SDPA", TORCH, "attention", settings)]  # fmt: skip
    case = race("wrong", contestants, Plan.of(1.0, attention.LIMITS, {}, quick=True))
    assert not case.ok and case.numerics[0].error > 10 * case.numerics[0].limit


def test_layer():
    made = bench("layer", quick=True)
    assert made.ok and len(made.cases) == 2
    for workload, case in zip(layer.WORKLOADS, made.cases, strict=True):
        values = {row.value for row in case.numerics}
        assert {"y", "dx", "d blocks.0.attn.q.weight", "d blocks.0.norm2.weight"} <= values
        assert ("d blocks.0.mlp.gate.weight" in values) == workload.config.gated_mlp
        assert all(row.error > 0 for row in case.numerics)  # two frameworks, not one twice


def test_step(monkeypatch):
    monkeypatch.setattr(step, "WORKLOADS", step.WORKLOADS[1:])
    made = bench("step", quick=True)
    (case,) = made.cases
    assert made.ok and made.threads == 1 and "torch.compile" in case.absent
    assert list(case.timings) == ["mindport", "torch, fused AdamW", "torch, foreach AdamW", "line by line"]
    assert [row.value for row in case.numerics[:5]] == [f"loss {n}" for n in range(1, 6)]


def test_gpt2_and_its_translation_train_alike_and_a_wrong_scale_shows_in_the_losses():
    right = shapes.quick(shapes.GPT2_STEP).settings()
    wrong = {**right, "config": {**right["config"], "scale_attn_weights": False}}
    contestants = [
        Contestant("torch", TORCH, "step", right),
        Contestant("line by line", NAIVE, "step", right),
        Contestant("mindport", OURS, "step", {**right, "mode": "pynative"}),
        Contestant("fault", OURS, "step", {**wrong, "mode": "pynative"}),
    ]
    ok = {}
    for row in race("gpt2", contestants, PLAN).numerics:
        ok.setdefault(row.peer, []).append(row.ok)
    assert all(ok["line by line"] + ok["mindport"]) and not any(ok["fault"])


def test_knobs(monkeypatch):
    """Every knob in PyNative, which compiles nothing."""
    monkeypatch.setattr(knobs, "MODES", ("pynative",))
    made = bench("knobs", quick=True)
    (case,) = made.cases
    paths = {row[0]: row[1] for row in case.about[knobs.BEST]["kernels"]}
    expected = {f"{kernel}: reference" for kernel, path in paths.items() if path != "reference"}
    assert made.ok and set(case.ratios) == expected | set(knobs.FORMULATIONS)
    assert set(case.absent) == {f"{kernel}: reference" for kernel, path in paths.items() if path == "reference"}


def test_the_compiled_function_is_a_knob_of_graph_mode(monkeypatch):
    monkeypatch.setattr(knobs, "FORMULATIONS", ())
    workload = shapes.quick(knobs.LLAMA_STEP)
    small = replace(workload, config=workload.config.with_layers(1))
    case = knobs.case(small, "graph", {}, quick=True)
    assert case.ok and list(case.ratios) == [knobs.JIT]
