import sys

import pytest

from mindport.environment import system
from mindport.environment.system import GIB


@pytest.mark.parametrize(
    ("version", "state"), [((3, 9, 18), "error"), ((3, 10, 0), "pass"), ((3, 12, 9), "pass"), ((3, 13, 0), "error")]
)
def test_python(version, state):
    assert system.check_python(version).state == state


@pytest.mark.parametrize(
    ("name", "machine", "state"),
    [
        ("Linux", "x86_64", "pass"),
        ("Linux", "aarch64", "pass"),
        ("Windows", "AMD64", "warning"),
        ("Linux", "ppc64le", "warning"),
    ],
)
def test_platform(name, machine, state):
    assert system.check_platform(name, machine).state == state


@pytest.mark.parametrize(
    ("prefix", "base", "environ", "state"),
    [
        ("/home/a/.venv", "/usr", {}, "pass"),
        (
            "/opt/conda/envs/ms",
            "/opt/conda/envs/ms",
            {"CONDA_PREFIX": "/opt/conda/envs/ms", "CONDA_DEFAULT_ENV": "ms"},
            "pass",
        ),
        ("/opt/conda", "/opt/conda", {"CONDA_PREFIX": "/opt/conda", "CONDA_DEFAULT_ENV": "base"}, "warning"),
        ("/usr", "/usr", {"CONDA_PREFIX": "/opt/conda/envs/ms", "CONDA_DEFAULT_ENV": "ms"}, "warning"),
        ("/usr", "/usr", {}, "warning"),
    ],
)
def test_isolation(prefix, base, environ, state):
    assert system.check_isolation(prefix, base, environ).state == state


def test_two_copies_of_a_package_on_the_path_are_an_error(tmp_path):
    for place in ("first", "second"):
        (tmp_path / place / "mindspore").mkdir(parents=True)
        (tmp_path / place / "mindspore" / "__init__.py").touch()
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    check = system.check_search_path([first, second], "mindspore")
    assert check.state == "error"
    assert check.found == f"{first} before {second}"
    assert system.check_search_path([first, first, str(tmp_path)], "mindspore").state == "pass"


def test_a_stray_module_file_shadows_a_package(tmp_path):
    (tmp_path / "mindspore.py").touch()
    assert system.check_search_path([str(tmp_path), *sys.path], "mindspore").state == "error"


@pytest.mark.parametrize(
    ("free", "state"), [(GIB // 2, "error"), (2 * GIB, "warning"), (9 * GIB, "pass"), (None, "warning")]
)
def test_space(free, state):
    assert system.check_space("disk", free, (1 * GIB, 5 * GIB), "free space").state == state


def test_memory_is_what_linux_says_within_the_limit_of_the_container(tmp_path):
    proc, cgroup = tmp_path / "meminfo", tmp_path / "memory.max"
    proc.write_text("MemTotal:       32000000 kB\nMemAvailable:   16000000 kB\n")
    assert system.available_memory(proc, cgroup) == 16_000_000 * 1024
    cgroup.write_text("max\n")
    assert system.available_memory(proc, cgroup) == 16_000_000 * 1024
    cgroup.write_text(f"{2 * GIB}\n")
    assert system.available_memory(proc, cgroup) == 2 * GIB
    assert system.available_memory(tmp_path / "absent", cgroup) is None


def test_this_compiler_works():
    compiler = system.find_compiler({"PATH": "/usr/bin:/bin"})
    if not compiler:
        pytest.skip("no C++ compiler on this machine")
    assert system.check_compiler(compiler).state == "pass"


def test_a_compiler_without_openmp_is_a_warning_with_its_own_words(tmp_path):
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\necho 'error: unsupported option -fopenmp' >&2\nexit 1\n")
    fake.chmod(0o755)
    assert system.find_compiler({"PATH": str(tmp_path)}) == ["g++"]
    check = system.check_compiler([str(fake)])
    assert check.state == "warning"
    assert "unsupported option -fopenmp" in check.found


def test_a_compiler_whose_programs_do_not_run_is_a_warning(tmp_path):
    fake = tmp_path / "g++"
    fake.write_text('#!/bin/sh\nprintf \'#!/bin/sh\\nexit 3\\n\' > "$4"\nchmod +x "$4"\n')
    fake.chmod(0o755)
    check = system.check_compiler([str(fake)])
    assert check.state == "warning"
    assert "exit code 3" in check.found


def test_cxx_is_tried_first(tmp_path):
    for name in ("g++", "mine"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert system.find_compiler({"PATH": str(tmp_path), "CXX": "mine -O1"}) == ["mine", "-O1"]
    assert system.find_compiler({"PATH": str(tmp_path), "CXX": "absent"}) == []
    assert system.find_compiler({"PATH": ""}) == []
    assert system.find_compiler({"PATH": str(tmp_path), "CXX": "mine 'x"}) == []


def test_no_compiler_is_a_warning(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    assert (system.check_compiler([]).state, system.check_compiler([]).found) == ("warning", "none found")
    monkeypatch.setenv("CXX", "absent")
    assert system.check_compiler([]).found == "CXX is absent, which is not there"
