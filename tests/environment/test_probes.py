"""Each probe has a fault here that turns it red; that all are green on this machine is in test_doctor."""

import dataclasses

import pytest

from mindport.environment import probes
from mindport.environment.faults import FAULTS, planted
from mindport.errors import UsageError


def probe(name):
    return next(probe for probe in probes.PROBES if probe.name == name)


@pytest.fixture
def shadow(tmp_path):
    """Write modules into a folder that stands before the installed packages."""

    def write(**modules):
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text)
        return tmp_path

    return write


def test_a_planted_safetensors_fault_is_caught_by_its_bytes():
    check = probes.run_probe("safetensors, transposed", fault="safetensors 0.8")
    assert check.state == "error"
    assert check.found.startswith("wrong bytes")
    assert "safetensors<0.8" in check.do


def test_a_planted_numpy_fault_is_caught_at_the_first_operation():
    check = probes.run_probe("NumPy and MindSpore", fault="NumPy 2")
    assert check.state == "error"
    assert "SystemError" in check.found
    assert "numpy<2" in check.do


GRAPH_IS_DEFAULT = "PYNATIVE_MODE = 1\ndef get_context(name): return 0"
SILENT_RUN_CHECK = "def run_check(): print('MindSpore version: 2.10.0'); print('calculation is wrong')"
WORDLESS_RUN_CHECK = "def run_check(): pass"


@pytest.mark.parametrize(
    ("name", "mindspore", "found"),
    [
        ("default mode", GRAPH_IS_DEFAULT, "Graph"),
        ("run_check", SILENT_RUN_CHECK, "calculation is wrong"),
        ("run_check", WORDLESS_RUN_CHECK, "nothing was printed"),
        ("default mode", "raise ImportError('libmindspore_core.so: undefined symbol')", "undefined symbol"),
        ("default mode", "import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("default mode", "import sys; sys.exit(0)", "without an answer"),
    ],
)
def test_a_mindspore_that_misbehaves_is_an_error(shadow, name, mindspore, found):
    check = probes.run(probe(name), shadow=shadow(mindspore=mindspore))
    assert check.state == "error"
    assert found in check.found
    assert check.do


def test_a_wrong_product_is_caught_in_the_import_order_probe(shadow):
    wrong = """
class T(list):
    T = property(lambda self: self)
    numpy = lambda self: __import__("numpy").zeros((2, 2))
from_numpy = lambda a: T()
matmul = lambda a, b: a
"""
    check = probes.run(
        dataclasses.replace(probe("torch before mindspore"), arguments=("torch",)), shadow=shadow(torch=wrong)
    )
    assert check.state == "error"
    assert "[[0.0, 0.0], [0.0, 0.0]]" in check.found


def test_a_wrong_gradient_is_caught_in_the_training_step(shadow):
    broken = """
import importlib, sys
sys.path.pop(next(i for i, p in enumerate(sys.path) if p == __file__.rpartition("/")[0]))
del sys.modules["mindspore"]
real = importlib.import_module("mindspore")
sgd = real.nn.SGD
real.nn.SGD = lambda parameters, learning_rate: sgd(parameters, learning_rate=2 * learning_rate)
"""
    check = probes.run(probe("training step"), shadow=shadow(mindspore=broken))
    assert check.state == "error"
    assert "difference to NumPy" in check.found


def test_bfloat16_that_loses_bits_is_caught(shadow):
    lossy = "import numpy as np\nbfloat16 = np.float16"
    check = probes.run(probe("bfloat16"), shadow=shadow(ml_dtypes=lossy))
    assert check.state == "error"
    assert "tensor False" in check.found


def test_attention_that_gives_nan_is_caught(shadow):
    nan = """
import numpy as np
class Tensor:
    def __init__(self, data): self.data = data
    def asnumpy(self): return self.data * np.nan
class ops:
    flash_attention_score = staticmethod(lambda query, *rest, **options: query)
"""
    check = probes.run(probe("fused attention"), shadow=shadow(mindspore=nan))
    assert check.state == "error"
    assert "not finite" in check.found


def test_a_missing_optional_module_is_a_warning_and_a_missing_needed_one_an_error(shadow):
    gone = "raise ModuleNotFoundError(\"No module named '{0}'\", name='{0}')"
    torch = probes.run(probe("torch before mindspore"), shadow=shadow(torch=gone.format("torch")))
    numpy = probes.run(probe("safetensors, transposed"), shadow=shadow(numpy=gone.format("numpy")))
    assert (torch.state, numpy.state) == ("warning", "error")
    assert torch.found == "not run: torch is not installed"
    assert numpy.do.startswith("pip install 'numpy")


def test_the_message_is_found_before_a_stack_that_follows_it(shadow):
    stack = "raise RuntimeError('The kernel X unregistered.\\n\\n- C++ Call Stack:\\nmindspore/a.cc:848 SelectKernel')"
    found = probes.run(probe("default mode"), shadow=shadow(mindspore=stack)).found
    assert found == "RuntimeError: The kernel X unregistered."


def test_a_probe_that_hangs_is_ended(shadow):
    check = probes.run(probe("default mode"), shadow=shadow(mindspore="import time; time.sleep(60)"), timeout=0.5)
    assert check.state == "error"
    assert check.found == "no answer within 0.5 s"
    assert "default_mode.py" in check.do


def test_noise_on_stdout_does_not_hide_the_answer(shadow):
    noisy = "print('[WARNING] {')\nPYNATIVE_MODE = 1\ndef get_context(name): print(7); return 1"
    assert probes.run(probe("default mode"), shadow=shadow(mindspore=noisy)).state == "pass"


def test_every_script_is_used_and_every_probe_has_one():
    files = {path.stem for path in probes.SCRIPTS.glob("*.py")} - {"__init__"}
    assert files == {probe.script for probe in probes.PROBES}


def test_the_program_shown_is_the_program_run():
    assert "save_file" in probes.program("safetensors, transposed")


def test_names_that_do_not_exist():
    with pytest.raises(UsageError, match="safetensors, transposed"):
        probes.run_probe("safetensor")
    with pytest.raises(UsageError, match="NumPy 2"), planted("NumPy 3"):
        pass


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_leaves_nothing_behind(fault):
    with planted(fault) as folder:
        assert any(folder.iterdir())
    assert not folder.exists()
