"""The questions of notebooks 01 to 03: sensible spellings of the answer are right, and what is near it is wrong."""

import pytest

from mindport.exercises import Exercises, step_01, step_02, step_03

RIGHT = {
    "01.head_dim": [4096, "4096"],
    "01.kv_cache": [3, "3", 3.0],
    "01.unknown": ["num_local_experts", "the refused one", "num_local_experts, it is refused"],
    "02.shape": [[3072, 768], (3072, 768), "[3072, 768]", "3072 x 768"],
    "02.bias": [1536, "1536"],
    "02.proof": ["parity", "Parity.", "parity (notebook 03)"],
    "02.repair": [
        "model.layers.{}.self_attn.o_proj.weight",
        " model.layers.0.self_attn.o_proj.weight\n",
    ],
    "03.local": [1, "1"],
    "03.sign": ["rope", "RoPE.", "rotary embedding", "the rotary positions"],
    "03.ulp": [2**-9, "0.00195", 0.002],
}
WRONG = {
    "01.head_dim": [5120, 160, 4096.5, "many"],
    "01.kv_cache": [9, 1 / 3, "three"],
    "01.unknown": ["x_gate", "both", "num_local_experts and x_gate", "", 2],
    "02.shape": [[768, 3072], 3072, "768, 3072", []],
    "02.bias": [768, 1537, "v"],
    "02.proof": ["round trip", "shapes", "parity and the round trip", "", 5],
    "02.repair": [
        "model.layers.{}.self_attn.out_proj.weight",
        "model.layers.{}.self_attn.q_proj.weight",
        "o_proj",
        "",
        7,
    ],
    "03.local": [0, 7, 1.5, "all"],
    "03.sign": ["mask", "softmax", "mask or rope", "", 0],
    "03.ulp": [1e-5, 2**-23, 0.004, "small"],
}


def bundled(model):
    """What the notebook gives with its question about the learner's own model."""
    from mindport.config import read_config
    from mindport.sources import resolve
    from mindport.weights import break_row, open_hf

    config, infos = read_config(resolve(model)), open_hf(resolve(model)).infos
    broken = break_row(config.dialect, step_02.WRONG_ROW, "out_proj")
    return {"broken": broken, "config": config.model, "shapes": {name: info.shape for name, info in infos.items()}}


CASES = {"right": RIGHT, "wrong": WRONG}


def test_every_question_is_tried_both_ways():
    assert RIGHT.keys() == WRONG.keys() == {**step_01.EXERCISES, **step_02.EXERCISES, **step_03.EXERCISES}.keys()


@pytest.mark.parametrize(
    ("name", "answer", "state"),
    [(name, answer, state) for state, case in CASES.items() for name, answers in case.items() for answer in answers],
)
def test_an_answer_is_judged(tmp_path, name, answer, state):
    given = bundled("tiny-llama") if name == "02.repair" else {}
    assert Exercises(tmp_path).check(name, answer, **given).state == state


def test_a_repair_is_judged_on_any_model_and_the_reason_is_the_planners(tmp_path):
    exercises, given = Exercises(tmp_path), bundled("tiny-gpt2")
    assert exercises.check("02.repair", None, **given).state == "not attempted"
    wrong = exercises.check("02.repair", "h.{}.attn.proj.weight", **given)
    assert wrong.state == "wrong" and "attn.proj.weight" in wrong.text and "unexpected" in wrong.text
    for right in ("h.{}.attn.c_proj.weight", "transformer.h.1.attn.c_proj.weight"):
        assert exercises.check("02.repair", right, **given).state == "right"


def test_what_the_question_on_unknown_keys_claims_is_so(tmp_path):
    from mindport.config import read_config
    from mindport.errors import ConfigError
    from mindport.files import read_json, write_json
    from mindport.sources import resolve

    raw = read_json(resolve("tiny-llama") / "config.json") | {"x_gate": 1}
    write_json(tmp_path / "config.json", raw)
    assert read_config(tmp_path, allow=["x_gate"]).model is not None
    write_json(tmp_path / "config.json", raw | {"num_local_experts": 8})
    with pytest.raises(ConfigError, match="num_local_experts"):
        read_config(tmp_path, allow=["x_gate", "num_local_experts"])
