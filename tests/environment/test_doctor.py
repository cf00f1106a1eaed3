import json
import subprocess
import sys
from pathlib import Path

import pytest

import mindport
from mindport.environment import doctor, system
from mindport.environment.check import Check
from mindport.environment.doctor import EnvironmentReport, diagnose_environment
from mindport.environment.probes import probe_names
from mindport.errors import UsageError

LIB = Path(mindport.__file__).parents[1]


def report(*states):
    checks = tuple(
        Check(f"check {i}", "system", state, "found", do="act" * (state != "pass")) for i, state in enumerate(states)
    )
    return EnvironmentReport(checks, 1.0)


@pytest.fixture(scope="module")
def whole():
    return diagnose_environment()


def test_every_probe_passes_on_the_tested_machine(whole):
    states = {check.name: check for check in whole.checks if check.group == "probes"}
    assert tuple(states) == probe_names()
    assert {name: check.found for name, check in states.items() if check.state == "error"} == {}


def test_the_report_has_every_group_and_is_json(whole):
    assert {check.group for check in whole.checks} == set(doctor.GROUPS)
    back = json.loads(json.dumps(whole.as_dict(), allow_nan=False))
    assert back["ok"] is whole.ok
    assert [check["name"] for check in back["checks"]] == [check.name for check in whole.checks]
    assert len({check.name for check in whole.checks}) == len(whole.checks)


def test_the_card_has_a_line_for_each_probe_and_claims_nothing_for_ascend(whole):
    lines = whole.properties()
    assert [line.name.partition(":")[0] for line in lines[1:]] == list(probe_names())
    assert {line.backend for line in lines} <= {"CPU", "none"}


def test_probes_are_of_the_platform_that_run_check_names():
    checks = (Check("run_check", "probes", "pass", "installed on platform [Ascend] successfully!"),)
    assert EnvironmentReport(checks, 1.0).properties()[1].backend == "Ascend"


def test_the_summary_counts_every_check(whole):
    rows = whole.summary().rows
    assert [row[0] for row in rows] == list(doctor.GROUPS)
    assert sum(sum(row[1:]) for row in rows) == len(whole.checks)


@pytest.mark.parametrize(
    ("states", "ok"), [(("pass", "pass"), True), (("pass", "warning"), True), (("pass", "warning", "error"), False)]
)
def test_only_an_error_makes_it_not_ready(states, ok):
    found = report(*states)
    assert found.ok is ok
    assert found.properties()[0].state == ("verified" if ok else "failed")


def test_what_to_do_comes_first_and_errors_before_warnings():
    first = report("pass", "warning", "error").tables()[0]
    assert first.title == "what to do"
    assert [row[0] for row in first.rows] == ["error", "warning"]
    assert report("pass").tables()[0].title == "system"
    assert report("pass").to_do().rows == []


def test_without_probes_the_card_says_skipped():
    found = diagnose_environment(probes=False)
    assert not any(check.group == "probes" for check in found.checks)
    assert {line.name: line.state for line in found.properties()}["the probes"] == "skipped"


def test_a_check_that_stops_becomes_a_row_and_hides_no_other(monkeypatch):
    monkeypatch.setitem(doctor._CHECKS, system.GROUP, lambda: 1 / 0)
    found = diagnose_environment(only=["system", "devices"])
    assert found.check("system").state == "error"
    assert "ZeroDivisionError" in found.check("system").found
    assert found.check("NPU")


def test_an_unknown_group_or_check_is_named():
    with pytest.raises(UsageError, match="sytem"):
        diagnose_environment(only=["sytem"])
    with pytest.raises(UsageError, match="no-such"):
        report("pass").check("no-such")


def test_a_bad_visibility_variable_makes_the_machine_not_ready(monkeypatch):
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "3,1")
    found = diagnose_environment(only=["devices"])
    assert not found.ok
    assert found.check("ASCEND_RT_VISIBLE_DEVICES").state == "error"


def bare(*arguments):
    """The doctor in an interpreter that sees the standard library and lib/ only."""
    program = (
        f"import sys; sys.path.insert(0, {str(LIB)!r}); from mindport.environment.doctor import main; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *arguments], capture_output=True, text=True, timeout=300
    )


def test_a_bare_interpreter_gets_rows_and_no_traceback():
    done = bare("--json")
    found = json.loads(done.stdout)
    checks = {check["name"]: check for check in found["checks"]}
    assert (done.returncode, done.stderr, found["ok"]) == (1, "", False)
    assert checks["numpy"]["state"] == checks["NumPy and MindSpore"]["state"] == "error"
    assert checks["torch"]["state"] == checks["ipywidgets"]["state"] == "warning"
    assert not any("itself stopped" in check["found"] for check in checks.values())
    assert all(check["do"] for check in checks.values() if check["state"] != "pass")


def test_the_command_line():
    done = bare("--only", "devices")
    assert (done.returncode, done.stderr) == (0, "")
    assert "CPU only" in done.stdout or "NPU" in done.stdout
    wrong = bare("--only", "nothing")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "nothing" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_reading_versions_imports_no_framework():
    program = (
        "import sys; from mindport.environment import doctor as d; d.diagnose_environment(False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert not {"numpy", "mindspore", "torch", "safetensors"} & set(done.stdout.split())


def test_a_python_without_wheels_is_told_before_anything_else(monkeypatch, capsys):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9, 18, "final", 0))
    assert doctor.main(["--json"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Python 3.9.18" in said.err
