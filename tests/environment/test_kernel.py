import json
import os
import sys

import pytest

from mindport.environment import kernel


def register(root, argv):
    file = root / "kernels" / "python3" / "kernel.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"argv": argv, "display_name": "Python 3"}))
    return file


def check(root):
    directories = kernel.kernel_directories({"JUPYTER_PATH": str(root), "HOME": str(root)}, str(root / "prefix"))
    return kernel.check_kernelspec(kernel.find_kernelspec(directories[:1]), sys.executable)


@pytest.mark.parametrize("starts", [sys.executable, "python", "python3", "python3.11"])
def test_a_kernel_of_this_interpreter_passes(tmp_path, starts):
    register(tmp_path, [starts, "-m", "ipykernel_launcher"])
    assert check(tmp_path).state == "pass"


def test_a_kernel_of_another_environment_is_an_error_that_says_how_to_register(tmp_path):
    register(tmp_path, ["/opt/elsewhere/bin/python", "-m", "ipykernel_launcher"])
    answer = check(tmp_path)
    assert answer.state == "error"
    assert "/opt/elsewhere/bin/python" in answer.found
    assert kernel.REGISTER in answer.do


def test_another_venv_of_the_same_base_interpreter_is_another_environment(tmp_path):
    other = tmp_path / "other" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.symlink_to(os.path.realpath(sys.executable))
    register(tmp_path, [str(other)])
    assert check(tmp_path).state == "error"


@pytest.mark.parametrize("text", ["{", "[]", '{"argv": []}', '{"argv": 3}'])
def test_a_damaged_kernelspec_is_an_error(tmp_path, text):
    register(tmp_path, []).write_text(text)
    assert check(tmp_path).state == "error"


def test_no_kernelspec_is_a_warning(tmp_path):
    answer = check(tmp_path)
    assert answer.state == "warning"
    assert kernel.REGISTER in answer.do


def test_the_environment_comes_before_the_user(tmp_path):
    places = kernel.kernel_directories({"HOME": "/home/a"}, "/venv")
    assert [str(place) for place in places[:2]] == [
        "/venv/share/jupyter/kernels",
        "/home/a/.local/share/jupyter/kernels",
    ]
