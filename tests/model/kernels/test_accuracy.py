"""The figures in the comments of cpp/: how exact its functions of vectors are, over all their range."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mindport.environment.system import find_compiler
from mindport.model.kernels.library import FLAGS, SOURCES
from tests.model.kernels.planted import OTHER_CPUS

PROGRAM = Path(__file__).parent / "cpp" / "accuracy.cc"
SAID = {"exp": 9e-8, "exp_inside": 9e-8, "exp2_negative": 2.5e-7, "over_bell": 5e-7, "sigmoid": 1.5e-7}  # relative


def measured(command: str, folder: Path, sources: Path = SOURCES) -> dict[str, float]:
    program, flags = folder / "accuracy", [flag for flag in FLAGS if flag != "-shared"]
    subprocess.run([*command.split(), *flags, f"-I{sources}", str(PROGRAM), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    return {name: float(error) for name, error in map(str.split, done.stdout.splitlines())}


@pytest.mark.parametrize("other", ["", *OTHER_CPUS], ids=["this CPU", "8 lanes", "4 lanes"])
def test_the_figures_are_those_of_the_comments(compiler, tmp_path, other):
    errors = measured(other or " ".join(find_compiler(os.environ)), tmp_path)
    assert errors.keys() == SAID.keys()
    assert all(error <= SAID[name] for name, error in errors.items()), errors


def test_a_digit_less_of_ln_2_is_seen(tmp_path, compiler):
    for source in SOURCES.iterdir():
        (tmp_path / source.name).write_text(source.read_text().replace("2.12194440e-4f", "2.12e-4f"))
    errors = measured(" ".join(find_compiler(os.environ)), tmp_path, tmp_path)
    assert errors["exp"] > SAID["exp"]
