"""A check holds, is false, partly so, breaks, crashes or hangs; whatever it does is one row, and spoils no other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from mindport import cli
from mindport.claims import ClaimsReport, read_ledger, run
from mindport.claims.snippet import verdict

HEAD = 'topics:\n  t: "A topic"\nset_ups:\n  counted: |\n    calls = []\nclaims:\n'


def entry(number: int, check: str, verdict: str = "holds", **more: str) -> str:
    fields = {"topic": "t", "claim": f"Claim {number}.", "verdict": f'"{verdict}"', "practice": "Look.",
              "seen_on": "numpy 0.1", **more}  # fmt: skip
    lines = [f"  - id: C{number:03}", *(f"    {name}: {value}" for name, value in fields.items()), "    check: |"]
    return "\n".join([*lines, *(f"      {line}" for line in check.splitlines())]) + "\n"


def result(tmp_path: Path, *entries: str, set_up: bool = False, workers: int = 2) -> ClaimsReport:
    used = "" if set_up else entry(999, "calls == []", set_up="counted")
    path = tmp_path / "claims.yaml"
    path.write_text(HEAD + "".join(entries) + used, encoding="utf-8")
    return run(ledger=path, workers=workers, progress=False)


def rows(report: ClaimsReport) -> dict[str, tuple[str, str]]:
    return {row.id: (row.seen, row.state) for row in report.rows if row.id != "C999"}


def test_a_verdict_is_what_the_sub_claims_say():
    assert [verdict(seen) for seen in ({"a": True, "b": "saw it"}, {"a": False, "b": ""}, {"a": True, "b": ""})] == [
        "holds", "false", "partly",
    ]  # fmt: skip


def test_each_verdict_comes_out_with_its_evidence(tmp_path):
    report = result(
        tmp_path,
        entry(1, "one = 1\none == 1"),
        entry(2, '{"one is two": 1 == 2, "two is one": ""}', "false"),
        entry(
            3, 'import math\n{"pi is 3": math.pi == 3, f"pi is {math.pi:.2f}": np.isclose(math.pi, 3.14159)}', "partly"
        ),
        entry(4, "False", "inconsistent", here='"false"'),
    )
    assert rows(report) == {
        "C001": ("holds", "agrees"), "C002": ("false", "agrees"), "C003": ("partly", "agrees"),
        "C004": ("false", "agrees"),
    }  # fmt: skip
    assert report.ok and report.rows[0].evidence == ("one == 1: yes",)
    assert report.rows[2].evidence == ("pi is 3: no", "pi is 3.14: yes")
    assert report.headline().startswith("5 claims: 2 hold, 1 hold partly, 1 are false, 1 contradict themselves. 5 of 5")


def test_a_verdict_that_changed_turns_it_red(tmp_path):
    report = result(tmp_path, entry(1, "1 == 1", "false"), entry(2, "1 == 1"))
    assert rows(report) == {"C001": ("holds", "changed"), "C002": ("holds", "agrees")}
    assert not report.ok and "2 of 3 checks give the ledger's verdict; not: C001" in report.headline()
    (row,) = report.tables()[0].rows
    assert row[:3] == ["C001", "false", "holds"] and row[4].startswith("numpy 0.1 → ")
    assert [(p.state, p.backend) for p in report.properties()] == [("failed", "none")], "nothing needed MindSpore"
    assert report.as_dict()["totals"]["changed"] == 1


def test_what_breaks_crashes_or_hangs_is_reported_and_the_rest_goes_on(tmp_path):
    report = result(
        tmp_path,
        entry(1, "assert 1 == 2\nTrue"),
        entry(2, "1 / 0"),
        entry(3, "os.kill(os.getpid(), 11)"),
        entry(4, 'print("last words", file=sys.stderr)\nos._exit(3)'),
        entry(5, "import time\ntime.sleep(60)", timeout='"1"'),
        entry(6, "sys.exit(0)"),
        entry(7, "[1, 2]"),
        entry(8, "{}"),
        entry(9, "True"),
        workers=1,
    )
    assert {state for _, state in list(rows(report).values())[:-1]} == {"broken"}
    assert rows(report)["C009"] == ("holds", "agrees")
    said = {row.id: row.evidence[0] for row in report.rows}
    assert said["C001"].startswith("AssertionError") and said["C002"].startswith("ZeroDivisionError")
    assert "signal 11 (Segmentation fault)" in said["C003"] and "exit code 3; last words" in said["C004"]
    assert said["C005"] == "no answer within 1 s" and said["C006"].startswith("SystemExit")
    assert said["C007"].startswith("TypeError: a check ends in") and said["C008"].startswith("TypeError")


def test_a_process_that_a_check_started_is_ended_with_it(tmp_path):
    pid = tmp_path / "pid"
    start = f'child = subprocess.Popen(["sleep", "60"])\nPath("{pid}").write_text(str(child.pid))\nchild.wait()'
    assert rows(result(tmp_path, entry(1, start, timeout='"2"')))["C001"] == ("", "broken")
    assert until(lambda: not is_running(pid))


def test_a_set_up_runs_once_and_a_check_alone_has_a_process_of_its_own(tmp_path):
    count = "calls.append(1)\n"
    report = result(
        tmp_path,
        entry(1, count + "len(calls) == 1", set_up="counted"),
        entry(2, count + "len(calls) == 2", set_up="counted"),
        entry(3, 'sys.modules["mark"] = sys\nTrue'),
        entry(4, '"mark" not in sys.modules', alone='"yes"'),
        set_up=True,
        workers=1,
    )
    assert report.ok, report.text()


def test_what_an_earlier_check_spoilt_is_seen_in_a_fresh_process_and_told(tmp_path):
    report = result(
        tmp_path,
        entry(1, 'sys.modules["mark"] = sys\nTrue'),
        entry(2, '"mark" not in sys.modules'),
        entry(3, 'assert "mark" not in sys.modules\nFalse'),
        workers=1,
    )
    assert rows(report) == {"C001": ("holds", "agrees"), "C002": ("holds", "agrees"), "C003": ("false", "changed")}
    told = 'after other checks in one process: "mark" not in sys.modules: no'
    assert report.rows[1].evidence == ('"mark" not in sys.modules: yes', told)


def test_arithmetic_brings_no_framework(tmp_path):
    report = result(tmp_path, entry(1, 'not {"mindspore", "torch", "numpy"} & set(sys.modules)', alone='"yes"'))
    assert report.ok, report.text()


def test_an_interruption_ends_the_workers(tmp_path):
    pids = [tmp_path / name for name in ("1", "2")]
    slow = [f'import time\nPath("{pid}").write_text(str(os.getpid()))\ntime.sleep(600)\nTrue' for pid in pids]
    path = tmp_path / "claims.yaml"
    path.write_text(
        HEAD + entry(1, slow[0]) + entry(2, slow[1]) + entry(3, "calls", set_up="counted"), encoding="utf-8"
    )
    code = "import pathlib, sys; from mindport.claims import run; run(ledger=pathlib.Path(sys.argv[1]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background has it ignored
    )  # fmt: skip
    assert until(lambda: all(pid.exists() and pid.read_text() for pid in pids))
    process.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate(timeout=300)[1] and process.returncode
    assert until(lambda: not any(is_running(pid) for pid in pids))


def is_running(pid: Path) -> bool:
    """A process that ended but was not waited for has no command line any more."""
    line = Path(f"/proc/{pid.read_text()}/cmdline")
    return line.exists() and bool(line.read_bytes())


def until(fact: Callable[[], bool]) -> bool:
    return any(fact() or time.sleep(0.1) for _ in range(600))


CHEAP = ("C019", "C024", "C032", "C039", "C055", "C064", "C067", "C083", "C111", "C156", "C175")


def test_a_part_of_the_ledger_still_has_its_verdicts(monkeypatch, capsys):
    assert cli.main(["claims", "--only", *CHEAP, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] and [row["id"] for row in answer["rows"]] == list(CHEAP)
    assert {row["device"] for row in answer["rows"]} - {""} == {"CPU"}
    assert {row["state"] for row in answer["rows"]} == {"agrees"} and answer["totals"]["agrees"] == len(CHEAP)
    assert all(row["evidence"] and row["seen_on"] for row in answer["rows"]) and answer["versions"]["mindspore"]


def test_a_claim_that_cannot_run_says_why(capsys):
    assert cli.main(["claims", "--only", "C016"]) == 0
    assert "a setting of an editor" in capsys.readouterr().out
    assert read_ledger().select(["C016"])[0].why_not == "a setting of an editor"


def test_a_changed_verdict_exits_1(tmp_path, monkeypatch, capsys):
    path = tmp_path / "claims.yaml"
    path.write_text(HEAD + entry(1, "calls != []", set_up="counted"), encoding="utf-8")
    monkeypatch.setattr("mindport.claims.ledger.LEDGER", str(path))
    assert cli.main(["claims"]) == 1
    assert "0 of 1 checks give the ledger's verdict; not: C001" in capsys.readouterr().out
