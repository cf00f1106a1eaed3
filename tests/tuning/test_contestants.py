"""Every benchmark in tiny, from end to end: ours, torch and the translations compute the same; a fault is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindport.tuning import attention, bench, knobs, layer, shapes, step, train
from mindport.tuning.contestant import Contestant
from mindport.tuning.numerics import agree
from mindport.tuning.peers import NAIVE, OURS, TORCH
from mindport.tuning.race import Plan, race

pytestmark = pytest.mark.slow
PLAN = Plan.of(1.0, step.LIMITS, {}, quick=True, warm_up=shapes.STEPS)


@pytest.fixture
def eager():
    """What is built in this process may switch to Graph mode; afterwards the process is as it was."""
    import mindspore as ms

    before = ms.get_context("mode")
    yield
    ms.set_context(mode=before)


def test_attention():
    made = bench("attention", quick=True)
    (case,) = made.cases
    assert made.ok and list(case.timings) == ["mindport", "torch SDPA", "torch matmul"]
    assert {row.value for row in case.numerics} == {"dq", "dk", "dv"}
    assert [row[0] for row in case.about["mindport"]["kernels"]] == ["attention"]


def test_attention_with_a_wrong_scale_is_no_result(eager):
    """In this process, which saves the start of two."""
    from mindport.tuning import ours, torch_peer

    settings = {**attention.QUICK, "backward": False}
    contestants = torch_peer.attention(**settings), ours.attention(**settings), ours.attention(**settings, scale=0.26)
    for built in contestants:
        built.run()
    torch, right, wrong = (built.values() for built in contestants)
    assert agree("torch", right, torch, attention.LIMITS)[0].ok
    (row,) = agree("torch", wrong, torch, attention.LIMITS)  # 1 / √16 would be right
    assert not row.ok and row.error > 10 * row.limit


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
    """The formulations and two kernels, in PyNative, which compiles nothing."""
    probe = knobs._paths
    some = {"attention", "swiglu"}
    monkeypatch.setattr(knobs, "_paths", lambda w: {name: path for name, path in probe(w).items() if name in some})
    monkeypatch.setattr(knobs, "MODES", ("pynative",))
    made = bench("knobs", quick=True)
    (case,) = made.cases
    paths = {row[0]: row[1] for row in case.about[knobs.BEST]["kernels"] if row[0] in some}
    expected = {f"{kernel}: reference" for kernel, path in paths.items() if path != "reference"}
    assert made.ok and set(case.ratios) == expected | set(knobs.FORMULATIONS)
    assert set(case.absent) == {f"{kernel}: reference" for kernel, path in paths.items() if path == "reference"}


def test_graph_mode_has_knobs_for_the_other_modes(monkeypatch):
    raced: list[Contestant] = []
    monkeypatch.setattr(knobs, "race", lambda name, contestants, plan, absent: raced.extend(contestants))
    for mode in knobs.MODES:
        knobs.case(knobs.LLAMA_STEP, mode, {"rope": "reference", "attention": "cpu"})
    settings = [(who.name, who.settings["mode"], who.settings.get("overrides")) for who in raced]
    assert ("attention: reference", "graph", ["attention"]) in settings
    assert ("ms.jit, not a Cell", "jit", None) in settings and ("PyNative", "pynative", None) in settings
    assert len(raced) == 7 + 5 and all("rope" not in who.name for who in raced)


def test_fine_tuning_counts_the_same_tokens_on_both_sides(eager):
    """In this process, as above; with the labels of plain text on one side the losses differ."""
    from mindport.tuning import ours, torch_peer

    workload = shapes.quick(shapes.SMOLLM2_WHOLE)
    small = replace(workload, config=workload.config.with_layers(1)).settings()
    rows = shapes.batch(2, 24, 96)
    counts = (shapes.labels(rows, tuned=True) != shapes.IGNORED).sum(1)
    assert counts.tolist() == [18, 6] and (shapes.labels(rows, tuned=False) == rows).all()
    mine = ours.step(**small, mode="pynative", tuned=True)
    its, plain = (torch_peer.step(**small, tuned=tuned) for tuned in (True, False))
    for built in (mine, its, plain) * shapes.STEPS:
        built.run()
    assert all(row.ok for row in agree("torch", mine.values(), its.values(), train.LIMITS))
    assert not any(row.ok for row in agree("torch", mine.values(), plain.values(), train.LIMITS))


def test_a_compiled_function_trains_like_the_cell_in_pynative(eager):
    from mindport.tuning import ours

    workload = shapes.quick(shapes.SMOLLM2_STEP)
    small = replace(workload, config=workload.config.with_layers(1)).settings()
    jitted, plain = (ours.step(**small, mode=mode) for mode in ("jit", "pynative"))
    for built in (jitted, plain) * shapes.STEPS:
        built.run()
    assert len(jitted.values()) == shapes.STEPS
    assert all(row.ok for row in agree("pynative", jitted.values(), plain.values(), step.LIMITS))
