"""The set-up: one list of dependencies, constraints that fit it, and failures that name their cause."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


@pytest.fixture
def setup() -> ModuleType:
    """`.ci/setup.py` as a module."""
    spec = importlib.util.spec_from_file_location("mindport_setup", ROOT / ".ci" / "setup.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., str]:
    """Makes an executable that answers like a Python of some version."""

    def make(version: str, *, has_venv: bool = True) -> str:
        path = tmp_path / f"python-{version.replace(' ', '.')}-{has_venv}"
        path.write_text(
            f'#!/bin/sh\ncase "$2" in *ensurepip*) exit {0 if has_venv else 1};; *) echo {version};; esac\n'
        )
        path.chmod(0o755)
        return str(path)

    return make


def dependencies() -> list[Requirement]:
    """The direct dependencies, test tools included, with the comment of each line checked on the way."""
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    start, end = lines.index("dependencies = ["), lines.index("[project.scripts]")
    listed = [line.strip() for line in lines[start:end] if line.strip().startswith('"')]
    reasons = [line for line in listed if "#" in line or line == '"torch==2.13.0",']  # torch's stands above it
    assert reasons == listed
    return [Requirement(line.split('"')[1]) for line in listed]


def constraints() -> list[Requirement]:
    """The lines of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12"])
def test_constraints_fix_one_version_of_each_dependency(version: str) -> None:
    environment = {"python_version": version, "python_full_version": f"{version}.5"}
    held = [c for c in constraints() if c.marker is None or Marker(str(c.marker)).evaluate(environment)]
    pins = {c.name.lower().replace("_", "-"): str(c.specifier).removeprefix("==") for c in held}
    assert len(pins) == len(held)
    for dependency in dependencies():
        assert pins[dependency.name.lower().replace("_", "-")] in dependency.specifier, dependency.name


def test_constraints_resolve_elsewhere() -> None:
    for constraint in constraints():
        assert str(constraint.specifier).startswith("==")
        assert "+" not in str(constraint.specifier), f"{constraint} is a build of one machine"


def test_pins_that_matter() -> None:
    specifiers = {d.name: d.specifier for d in dependencies()}
    assert "2.0.0" not in specifiers["numpy"]
    assert "0.8.0" not in specifiers["safetensors"]
    assert "0.6.0" not in specifiers["ml_dtypes"]
    assert "2.10.0" in specifiers["mindspore"]
    assert "2.11.0" not in specifiers["mindspore"]


def test_conda_holds_no_second_list() -> None:
    lines = (ROOT / "environment.yml").read_text(encoding="utf-8").splitlines()
    items = [line.strip().removeprefix("- ") for line in lines if line.strip().startswith("- ")]
    assert items == ["conda-forge", "nodefaults", "python=3.11", "pip", "pip:", "-c constraints.txt", "-e .[test]"]


def test_finds_the_first_that_fits(
    setup: ModuleType, python: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = python("3 12")
    monkeypatch.setattr(setup, "CANDIDATES", ("/no/such", python("3 13"), python("3 11", has_venv=False), right))
    assert setup.find_python("") == right


def test_wrong_python_is_named(setup: ModuleType, python: Callable[..., str]) -> None:
    with pytest.raises(setup.SetupError, match=r"is 3\.13") as caught:
        setup.find_python(python("3 13"))
    assert "3.11" in str(caught.value)


def test_no_python_at_all(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "CANDIDATES", ())
    with pytest.raises(setup.SetupError, match="none on the PATH"):
        setup.find_python("")


def test_missing_venv_module_is_named(setup: ModuleType, python: Callable[..., str]) -> None:
    with pytest.raises(setup.SetupError, match="python3-venv"):
        setup.find_python(python("3 11", has_venv=False))


def test_no_disk(setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5_900_000_000)
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(setup.SetupError, match=r"5\.9 GB free"):
        setup.check_disk(tmp_path / "new" / "venv")


def test_another_folder_is_left_alone(setup: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(setup.SetupError, match="no virtual environment"):
        setup.make_venv(tmp_path, "")
    assert (tmp_path / "thesis.txt").exists()


def test_another_python_than_the_environments(setup: ModuleType, python: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(python("3 10"))
    with pytest.raises(setup.SetupError, match=r"has Python 3\.10"):
        setup.set_up(tmp_path / "venv", python("3 11"))


def test_failed_command_is_named(setup: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(setup.SetupError, match="it went wrong") as caught:
        setup.run([sys.executable, "-c", "raise SystemExit(7)"], "it went wrong", tmp_path)
    assert "exit 7" in str(caught.value)


def test_steps_once_then_nothing_then_again_after_a_change(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in setup.INPUTS:
        (tmp_path / name).write_text("one")
    venv, commands = tmp_path / ".venv", []

    def run(command: list[str], failure: str, place: Path) -> None:
        commands.append(command)
        venv.mkdir(exist_ok=True)
        (venv / "pyvenv.cfg").touch()

    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "DISK_GB", 0)
    monkeypatch.setattr(setup, "run", run)
    setup.set_up(venv, "")
    assert ["-m" in c for c in commands] == [True] * 3  # venv, pip, ipykernel
    setup.set_up(venv, "")
    assert len(commands) == 3
    assert "nothing to do" in capsys.readouterr().err
    (tmp_path / "constraints.txt").write_text("two")
    setup.set_up(venv, "")
    assert len(commands) > 3


def test_interrupted_installation_is_taken_up(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in setup.INPUTS:
        (tmp_path / name).write_text("one")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "DISK_GB", 0)
    monkeypatch.setattr(setup, "make_venv", lambda *_: (tmp_path / ".venv").mkdir())
    monkeypatch.setattr(setup, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        setup.set_up(tmp_path / ".venv", "")
    assert not setup.is_current(tmp_path / ".venv")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_lists_its_targets_and_names_a_bogus_python(tmp_path: Path) -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {"run", "test", "lab", "check", "bench", "clean", "help"} <= set(listed.split())
    command = ["make", "setup", "PYTHON=/no/such/python", f"VENV={tmp_path / 'venv'}"]
    failed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert failed.returncode != 0
    assert "/no/such/python does not run" in failed.stderr
    assert not (tmp_path / "venv").exists()
