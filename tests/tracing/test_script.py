"""`mindport trace`: the user's function in a process of its own, and what is said when it cannot be used."""

from __future__ import annotations

import json

import pytest

from mindport import cli
from mindport.errors import BackendError, MindPortError, UsageError
from mindport.parity.trace import read_trace
from mindport.tracing import script, trace
from mindport.tracing.launch import FAILED, SIDES, _their_error
from tests.tracing import users


def order(file, function, out="trace", framework=None, **options):
    given = {"seed": 0, "backward": True, "dropout": False, "exact": True, "match": None, "overwrite": False, **options}
    return {"file": str(file), "function": function, "out": str(out), "framework": framework, "options": given}


def test_the_command_answers_with_what_the_trace_holds(tmp_path, capfd):
    file, _ = users.write(tmp_path)
    words = ["trace", f"{file}:build", "--out", str(tmp_path / "t"), "--match", "blocks.0", "--seed", "7"]
    assert cli.main([*words, "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["path"] == str(tmp_path / "t") and answer["loss"] > 0
    assert {entry["name"] for entry in answer["entries"]} >= {"in/.[ids]", "out/blocks.0[0]", "grad/final.weight"}
    assert read_trace(tmp_path / "t").about["seed"] == 7
    assert cli.main(words) == 2 and "there already" in capfd.readouterr().err
    assert cli.main([*words, "--overwrite"]) == 0


def test_the_seed_reaches_what_the_function_draws_while_it_builds(tmp_path):
    file, _ = users.write(tmp_path)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        script.run(order(file, "build", tmp_path / name, "torch", seed=seed, backward=False, exact=False))
    digests = [read_trace(tmp_path / name).about["parameters"]["conv.weight"]["digest"] for name in "abc"]
    assert digests[0] == digests[1] != digests[2]
    configs = {read_trace(tmp_path / name).about["config"] for name in "abc"}
    assert len(configs) == 1  # of classes and shapes, not of values


FAULTS = {
    "no such function": ("build = 3", "no such function"),
    "no tuple": ("def build(): return 1", "does not return what is wanted(.|\n)*got: +int"),
    "too many": ("def build(): return 1, 2, 3, 4", "does not return what is wanted"),
    "no module": ("import torch\ndef build(): return 1, 2", r"no module of this framework(.|\n)*builtins\.int"),
    "an error": ("def build():\n    x = 1\n    raise KeyError(x)", r"raised(.|\n)*:3, in build(.|\n)*KeyError"),
    "an error at import": ("import torch\n1 / 0", r":2, in <module>(.|\n)*ZeroDivisionError"),
    "no Python": ("def build(:", "SyntaxError"),
    "an exit": ("def build(): raise SystemExit(3)", "SystemExit: 3"),
    "a loss of nothing": ("import torch\ndef build(): return torch.nn.Linear(2, 2), torch.ones(2), lambda y: None",
                          r"no scalar tensor(.|\n)*NoneType"),
    "a loss that is no scalar": ("import torch\ndef build(): return torch.nn.Linear(2, 2), torch.ones(2), lambda y: y",
                                 r"no scalar tensor(.|\n)*\(2,\)"),
    "no package": ("import nowhere_at_all", "ModuleNotFoundError"),
    "an error in forward": (
        "import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n        return x.gone\n"
        "def build(): return N(), torch.ones(2)", r":4, in forward(.|\n)*AttributeError"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_what_the_users_code_does_wrong_is_said_with_its_line(case, tmp_path):
    text, message = FAULTS[case]
    file = tmp_path / "theirs.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        script.run(order(file, "build", tmp_path / "t", "torch"))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(("loaded", "said"), [((), "neither"), (tuple(SIDES), "torch and mindspore")])
def test_a_framework_that_is_not_plain_must_be_named(loaded, said, tmp_path, monkeypatch):
    file = tmp_path / "theirs.py"
    file.write_text("def build(): return 1, 2", encoding="utf-8")
    monkeypatch.setattr(script, "sys", type("Sys", (), {"path": [], "modules": dict.fromkeys(loaded)}))
    with pytest.raises(UsageError, match=rf"{said}(.|\n)*--framework"):
        script.run(order(file, "build"))


def test_an_error_crosses_the_processes_whole(tmp_path, capfd):
    file = tmp_path / "theirs.py"
    file.write_text("import os\nprint('said')\ndef build():\n    raise ValueError('why')", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        trace(f"{file}:build", tmp_path / "t", framework="torch")
    assert caught.value.got == "ValueError: why" and str(caught.value.where).endswith("theirs.py:4, in build")
    assert cli.main(["trace", f"{file}:build", "--out", "t", "--framework", "torch"]) == 2
    assert "Traceback" not in capfd.readouterr().err
    line = FAILED + json.dumps(
        {"kind": "BackendError", "what": "w", "where": "x", "got": None, "expected": None, "do": "d"}
    )
    error = _their_error(line)
    assert isinstance(error, BackendError) and isinstance(error, MindPortError) and error.do == "d"


def test_a_process_that_is_ended_is_said(tmp_path, capfd):
    file = tmp_path / "theirs.py"
    file.write_text("import os\ndef build():\n    print('last words', flush=True)\n    os.kill(os.getpid(), 9)")
    with pytest.raises(BackendError, match=r"signal 9 \(Killed\)"):
        trace(f"{file}:build", tmp_path / "t", framework="torch")
    assert "last words" in capfd.readouterr().err


def test_a_models_directory_is_traced_by_the_reference(tmp_path, capfd):
    assert cli.main(["trace", "tiny-gpt2", "--layers", "1", "--out", str(tmp_path / "t")]) == 0
    assert cli.main(["compare", str(tmp_path / "t"), str(tmp_path / "t")]) == 0
    assert "agree in order of execution" in capfd.readouterr().out
    read = read_trace(tmp_path / "t")
    assert read.about["source"]["config"] and "out/logits" in read


def test_a_process_that_ends_early_leaves_no_older_trace_for_an_answer(tmp_path):
    """Its exit code says nothing: the user's code may call os._exit(0)."""
    file = tmp_path / "theirs.py"
    file.write_text("import os\nimport torch\ndef gone(): os._exit(0)\n"
                    "def build(): return torch.nn.Linear(2, 2), torch.ones(2)", encoding="utf-8")  # fmt: skip
    trace(f"{file}:build", tmp_path / "t")
    with pytest.raises(BackendError, match="was ended"):
        trace(f"{file}:gone", tmp_path / "t", overwrite=True)
