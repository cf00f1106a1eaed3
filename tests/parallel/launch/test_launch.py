"""Over MindSpore's own msrun: one job that goes well, one in which a rank fails while the other waits for it."""

from __future__ import annotations

import pytest

from mindport.errors import UsageError
from mindport.parallel.launch import call, launch
from mindport.parallel.launch.environ import TOKEN
from mindport.process_table import with_token


@pytest.mark.slow
def test_four_ranks_meet_in_a_grid(tmp_path):
    lines: list[str] = []
    answers = call("tests.parallel.launch.jobs:grid", {"dp": 2, "tp": 2, "other": 3}, workers=4, say=lines.append,
                   log_dir=tmp_path / "logs", environ={"WORD": "given", "GLOG_v": "4"}, timeout=240)  # fmt: skip
    assert [answer["ranks"]["rank"] for answer in answers] == [0, 1, 2, 3]
    assert [answer["sums"] for answer in answers] == [
        {"dp": 2.0, "tp": 1.0}, {"dp": 4.0, "tp": 1.0}, {"dp": 2.0, "tp": 5.0}, {"dp": 4.0, "tp": 5.0}
    ]  # fmt: skip
    groups = [(answer["ranks"]["dp_group"], answer["ranks"]["tp_group"]) for answer in answers]
    assert len({dp for dp, _ in groups}) == len({tp for _, tp in groups}) == 2
    assert all(answer["again"] and "3 ranks" in answer["refused"] and answer["word"] == "given" for answer in answers)
    assert {answer["wait"] for answer in answers} == {"passive"} and len({answer["sid"] for answer in answers}) == 4
    assert sum("has joined" in line for line in lines) == 4  # whatever level of the log the user has
    assert with_token(TOKEN, str(tmp_path / "logs")) == []


@pytest.mark.slow
def test_a_rank_that_fails_ends_the_one_that_waits_for_it(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        "import numpy as np\n"
        "from mindspore import Tensor, ops\n"
        "from mindport.parallel.join import join\n"
        "ranks = join(dp=2)\n"
        "print('joined', ranks.dp_rank)\n"
        "if ranks.rank == 1:\n"
        "    raise ValueError('on purpose')\n"
        "ops.AllReduce()(Tensor(np.ones(2, np.float32))).asnumpy()\n"
    )
    lines: list[str] = []
    report = launch(script, workers=2, log_dir=tmp_path / "logs", say=lines.append, timeout=240)
    assert report.first == 1 and "ValueError: on purpose" in report.headline(), report.text()
    assert report.ranks[1].traceback.splitlines()[1].endswith('job.py", line 7, in <module>')
    assert report.ranks[0].state == "ended, as rank 1 failed" and "[rank 0] joined 0" in lines
    assert with_token(TOKEN, str(tmp_path / "logs")) == []


def test_alone_there_is_nobody_to_join(monkeypatch):
    from mindport.parallel.join import join

    for name in ("MS_ROLE", "RANK_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="started alone"):
        join(dp=2)
    with pytest.raises(UsageError, match="no such rank"):
        join(dp=0)
