"""Whose fault it was, from records alone."""

from __future__ import annotations

from pathlib import Path

from mindport.parallel.launch import LaunchReport
from mindport.parallel.launch.judge import Facts, first_failure, hints, rank_ends
from mindport.parallel.launch.records import Ended, Said, Started, read, write

STARTED = Started(10, 9, 100.0)
WELL = Facts(0, STARTED, Said(0, 104.0, 5), Ended(0, 105.0, 2**20))
RUNS = Facts(2, STARTED, None, None, last="step 7")


def raised(rank: int, at: float) -> Facts:
    said = Said(1, at, 9, 2**20, error="ValueError: x\nmore", traceback="Traceback …\nValueError: x\n")
    return Facts(rank, STARTED, said, None)


def report(facts: list[Facts], stopped: str = "") -> LaunchReport:
    first = first_failure(facts)
    return LaunchReport("job.py", len(facts), 9.0, Path("logs"), rank_ends(facts, 100.0, stopped),
                        None if first is None else first.rank, stopped, hints(facts))  # fmt: skip


def test_the_earliest_failure_is_the_first_whatever_its_number():
    answer = report([raised(0, 108.0), raised(1, 107.5), RUNS])
    assert answer.first == 1 and answer.headline().startswith("job.py: rank 1 failed first after 7.5 s: ValueError: x;")
    assert [rank.state for rank in answer.ranks] == ["raised, after rank 1", "raised", "ended, as rank 1 failed"]
    assert answer.text().index("Traceback") < answer.text().index("how it ended") and not answer.ok
    assert "<pre>rank 1:" in answer._repr_html_()


def test_a_killed_rank_is_named_with_its_signal_and_memory_is_hinted_at():
    killed = Facts(1, STARTED, None, Ended(-9, 103.0, 0), last="reads <all>")
    answer = report([raised(0, 104.0), killed])
    assert answer.first == 1 and "signal 9 (Killed): by the kernel for want of memory" in answer.headline()
    assert "its last line: reads <all>" in answer.evidence() and "&lt;all&gt;" in answer._repr_html_()


def test_a_rank_that_is_gone_without_a_word_is_a_failure():
    assert report([WELL, Facts(1, STARTED, None, None, gone=103.0)]).first == 1


def test_a_crash_after_a_good_end_is_one():
    answer = report([WELL, Facts(1, STARTED, Said(0, 103.0, 5), Ended(-11, 104.0, 0))])
    assert "signal 11 (Segmentation fault), after its script had ended well" in answer.headline()


def test_a_rank_that_left_early_is_pointed_at():
    answer = report([WELL, raised(1, 140.0)])
    assert answer.hints == (
        "rank 0 had ended with exit code 0, 35 s before: in a collective the others then wait in vain",
    )
    assert answer.hints[0] in answer.evidence() and report([WELL, raised(1, 106.0)]).hints == ()


def test_all_well_is_well_and_nothing_else_is():
    good = report([WELL, WELL])
    assert good.ok and good.as_dict()["ok"] and "2 ranks ended well" in good.headline()
    late = report([WELL, RUNS], "the job did not end within 9 s")
    assert not late.ok and late.first is None and "did not end within 9 s" in late.headline()
    assert late.ranks[1].state == "ended by the launcher: the job did not end within 9 s"
    returned = Facts(1, STARTED, Said(0, 103.0, 5, 7, True), None)
    assert report([WELL, returned]).ok and report([returned]).ranks[0].seconds == 3.0
    assert not report([Facts(1, STARTED, Said(0, 103.0, 5), None)]).ok  # a script may still fail as it exits
    gone = report([WELL, Facts(1, None, None, None)])
    assert not gone.ok and gone.ranks[1].state == "never started" and "msrun ended" in gone.headline()


def test_records_are_read_as_they_were_written(tmp_path):
    for record in (STARTED, Said(1, 2.5, 3, 4, True, {"a": [1]}, "e", "t", {"what": "w"}), Ended(-9, 1.0, 7)):
        assert read(tmp_path, 3, type(record)) is None
        write(tmp_path, 3, record)
        assert read(tmp_path, 3, type(record)) == record
    write(tmp_path, None, STARTED)
    assert read(tmp_path, None, Started) == STARTED and read(tmp_path, 0, Started) is None
