import platform

import pytest

from mindport.environment.versions import (
    STACKS,
    Installed,
    cann_version,
    driver_version,
    judge,
    judge_combination,
    package_version,
    version_table,
)


def states(installed):
    return tuple(check.state for check in judge(installed))


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.mindspore)
def test_every_published_row_passes(stack):
    assert states(Installed(stack.mindspore, stack.mindformers, stack.cann, stack.driver)) == ("pass", "pass", "pass")


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.mindspore)
def test_the_neighbouring_row_is_refused(stack):
    other = STACKS[STACKS.index(stack) - 1]
    pair, cann, driver = judge(Installed(stack.mindspore, other.mindformers, other.cann, other.driver))
    assert pair.state in ("error", "warning")  # one neighbour was seen to work on a CPU
    assert (cann.state, driver.state) == ("error", "error")
    assert stack.mindformers in pair.do
    assert stack.cann in cann.do
    assert stack.driver in driver.do


def test_missing_mindformers_is_a_pass_that_names_the_paired_version():
    pair = judge(Installed("2.10.0"))[0]
    assert pair.state == "pass"
    assert "not installed (optional)" in pair.found
    assert "2.0.0" in pair.expected
    assert "hyper-parallel" in pair.expected


def test_a_pair_seen_to_work_is_a_warning_and_an_unseen_one_an_error():
    assert judge(Installed("2.10.0", "1.9.0"))[0].state == "warning"
    assert judge(Installed("2.10.0", "1.6.0"))[0].state == "error"


def test_an_unpublished_mindspore_is_a_warning():
    assert judge(Installed("2.8.0"))[0].state == "warning"


def test_a_missing_mindspore_is_an_error_with_a_command():
    pair = judge(Installed(None, "2.0.0"))[0]
    assert pair.state == "error"
    assert pair.do.startswith("pip install")


def test_a_driver_without_cann_is_an_error():
    cann = judge(Installed("2.10.0", None, None, "26.1.0"))[1]
    assert cann.state == "error"
    assert "set_env.sh" in cann.do


def test_an_alpha_of_the_right_cann_is_not_the_right_cann():
    assert judge(Installed("2.7.0", None, "8.2.RC1.alpha003", "25.2.0"))[1].state == "error"


def test_older_and_newer_are_told_apart():
    older, newer = (judge(Installed("2.10.0", cann=cann))[1].found for cann in ("9.0.0", "9.2.0"))
    assert "older" in older
    assert "newer" in newer


def test_cann_is_read_from_its_install_record(tmp_path):
    record = tmp_path / f"{platform.machine()}-linux" / "ascend_toolkit_install.info"
    record.parent.mkdir()
    record.write_text("package_name=Ascend-cann-toolkit\nversion=9.1.0\ninnerversion=V100R001C23\n")
    assert cann_version({"ASCEND_HOME_PATH": str(tmp_path)}) == "9.1.0"


def test_driver_is_read_from_version_info(tmp_path):
    file = tmp_path / "version.info"
    file.write_text("Version=26.1.0\nascendhal_version=7.35.19\n")
    assert driver_version(file) == "26.1.0"
    assert driver_version(tmp_path / "absent.info") is None


def test_versions_are_read_without_importing():
    assert package_version("numpy").startswith("1.")
    assert package_version("no-such-distribution") is None


def test_the_table_has_every_row():
    table = version_table()
    assert len(table.rows) == len(STACKS)
    assert "2.10.0" in table.text()
    assert "VERSION_MAP.json" in table.title


def test_a_judgement_says_which_part_is_refused():
    refused = judge_combination("2.10.0", cann="9.0.0")
    assert not refused.ok
    assert refused.headline() == "CANN: 9.0.0 (older than the published combination), not 9.1.0"
    assert judge_combination("2.10.0", cann="9.1.0").ok
