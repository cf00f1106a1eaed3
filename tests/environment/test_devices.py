import pytest

from mindport.environment import devices
from mindport.environment.devices import Card, Holder

CARDS = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 26.1.0                   Version: 26.1.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 91.0        36                0    / 0             |
| 0                         | 0000:41:00.0  | 0           0    / 0          3401 / 65536         |
+===========================+===============+====================================================+
| 2     910B3               | {health:<13} | 95.4        37                0    / 0             |
| 0                         | 0000:42:00.0  | 0           0    / 0          3400 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
"""
IDLE = "| No running processes found in NPU {npu}                                                            |\n"
HELD = """\
| 0       0                 | 3325989       | python                   | 50128                   |
| 2       0                 | 1333928       |                          | 37709                   |
"""


@pytest.fixture
def npu_smi(tmp_path, monkeypatch):
    """Put an `npu-smi` on PATH that prints what it is given."""

    def install(text, exit_code=0):
        (tmp_path / "answer").write_text(text)
        program = tmp_path / "npu-smi"
        program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/answer\nexit {exit_code}\n")
        program.chmod(0o755)
        return {"PATH": str(tmp_path)}

    return install


def by_name(environ):
    return {check.name: check for check in devices.check_devices(environ)}


def test_a_cpu_machine_passes_and_claims_nothing():
    npu = by_name({"PATH": ""})["NPU"]
    assert (npu.state, npu.found) == ("pass", devices.CPU_ONLY)


def test_idle_healthy_cards_pass(npu_smi):
    checks = by_name(npu_smi(CARDS.format(health="OK") + IDLE.format(npu=0) + IDLE.format(npu=2)))
    assert checks["NPU"].state == checks["NPU memory"].state == "pass"
    assert checks["NPU"].found == "0: 910B3 OK, 2: 910B3 OK"


def test_holders_of_memory_are_listed(npu_smi):
    memory = by_name(npu_smi(CARDS.format(health="OK") + HELD))["NPU memory"]
    assert memory.state == "warning"
    assert memory.found == "NPU 0: python 3325989 holds 50,128 MB; NPU 2: process 1333928 holds 37,709 MB"
    assert "kill" not in memory.do


def test_a_sick_card_is_an_error(npu_smi):
    assert by_name(npu_smi(CARDS.format(health="Alarm") + IDLE.format(npu=0)))["NPU"].state == "error"


@pytest.mark.parametrize(("text", "code"), [("", 1), ("DrvMngGetConsoleLogLevel failed. (ret=4)", 0), ("", 0)])
def test_npu_smi_without_an_answer_is_an_error_that_quotes_it(npu_smi, text, code):
    npu = by_name(npu_smi(text, code))["NPU"]
    assert npu.state == "error"
    assert text in npu.found


def test_parsing():
    assert devices.parse_cards(CARDS.format(health="OK")) == (Card(0, "910B3", "OK"), Card(2, "910B3", "OK"))
    assert devices.parse_holders(CARDS + HELD) == (Holder(0, 3325989, "python", 50128), Holder(2, 1333928, "", 37709))
    assert devices.parse_holders(CARDS + IDLE) == ()


@pytest.mark.parametrize("value", [None, "0", "0,1,3", "4,12"])
def test_good_values_of_the_process_variable(value):
    assert devices.check_process_variable(value).state == "pass"


@pytest.mark.parametrize("value", ["3,1", "1,1", "", "0, 1", "0,1,", "all", "-1", "0-3"])
def test_bad_values_of_the_process_variable(value):
    check = devices.check_process_variable(value)
    assert check.state == "error"
    assert repr(value) in check.found
    assert "ascending" in check.do


def test_the_container_variable_is_told_by_its_layer():
    check = by_name({"PATH": "", "ASCEND_VISIBLE_DEVICES": "0-3"})["ASCEND_VISIBLE_DEVICES"]
    assert check.state == "pass"
    assert "container" in check.found
