"""The table against the installed package, and against packages that contradict it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from mindport.parallel.variables import Variable, check_variables, search, variables


@pytest.fixture(scope="module")
def report():
    return check_variables()


def test_the_installed_package_agrees(report):
    assert report.ok and report.wrong == () and report.version.startswith("2.")
    assert [p.state for p in report.properties()] == ["verified"] and report.files > 1000
    verdicts = {variable.name: variable.verdict for variable in report.variables}
    assert {verdicts[name] for name in ("MS_NODE_TIMEOUT", "MS_SCHED_HOST", "RANK_ID", "MS_SIMULATION_LEVEL")} == {
        "exists"
    }
    assert verdicts["MS_ENABLE_HCCL"] == verdicts["MASTER_ADDR"] == verdicts["WORLD_SIZE"] == "does not exist"
    assert verdicts["HCCL_EXEC_TIMEOUT"] == "of another layer"
    shown = [row[1] for row in report.tables()[0].rows]  # a notebook cuts a long table: what nobody reads comes first
    assert shown.count("does not exist") == 7 and set(shown[:7]) == {"does not exist"} and len(shown) == len(verdicts)
    # only as the end of Open MPI's name
    assert "communication/management.py" in report.found["OMPI_COMM_WORLD_RANK"] and not report.found["WORLD_SIZE"]
    assert any(".so" in file for file in report.found["MS_NODE_TIMEOUT"])
    assert "MS_ENABLE_HCCL" in report.text()


def test_every_variable_has_a_source_and_stands_once():
    names = [variable.name for variable in variables()]
    assert len(set(names)) == len(names) and all(variable.source and variable.does for variable in variables())


def library(text: bytes) -> bytes:
    """A 64-bit ELF file with the sections .shstrtab, .rodata and .text; RANK_ID in the last one is no data."""
    names, code = b"\0.shstrtab\0.rodata.str1\0.text\0", b"\0RANK_ID\0"
    parts, at = [(1, names), (11, text), (24, code)], 64
    headers = b""
    for name, part in parts:
        headers += struct.pack("<IIQQQQ", name, 1, 2, 0, at, len(part)) + bytes(24)
        at += len(part)
    head = b"\x7fELF\x02\x01\x01".ljust(0x28, b"\0") + struct.pack("<Q", at) + bytes(10) + struct.pack("<HHH", 64, 3, 0)
    return head.ljust(64, b"\0") + b"".join(part for _, part in parts) + headers


def test_names_count_where_they_are_whole_and_data(tmp_path: Path):
    (tmp_path / "libx.so.1").write_bytes(library(b"\0MS_ROLE\0OMPI_COMM_WORLD_SIZE\0"))
    (tmp_path / "x.py").write_text('os.environ["RANK_TABLE_FILE"] = MS_ROLES\n')
    (tmp_path / "empty.py").touch()
    names = ["MS_ROLE", "WORLD_SIZE", "RANK_ID", "RANK_TABLE_FILE"]
    found = search(sorted(tmp_path.iterdir()), names)
    assert {name: [path.name for path in paths] for name, paths in found.items()} == {
        "MS_ROLE": ["libx.so.1"], "WORLD_SIZE": [], "RANK_ID": [], "RANK_TABLE_FILE": ["x.py"]
    }  # fmt: skip


def test_a_package_that_says_otherwise_is_seen(tmp_path: Path):
    (tmp_path / "x.py").write_text('os.getenv("MASTER_ADDR")\n')
    table = (Variable("MASTER_ADDR", "PyTorch", "-", "-", "-"), Variable("MS_ROLE", "MindSpore", "-", "-", "-"),
             Variable("HCCL_IF_IP", "HCCL", "-", "-", "-"))  # fmt: skip
    report = check_variables(tmp_path, table)
    assert report.wrong == ("MS_ROLE", "MASTER_ADDR") and not report.ok and report.exit_code == 1
    assert "contradicts" in report.headline() and report.properties()[0].state == "failed"
