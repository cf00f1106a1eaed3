"""The command line: exit codes, one JSON object on stdout, one message on stderr, no traceback for a user's error."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mindport.sources
from mindport import cli, commands
from mindport.errors import ConfigError, UsageError
from mindport.tables import Table
from tests.results_for_tests import Answer

ROOT = Path(__file__).parents[1]


def command(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "mindport", *words], capture_output=True, text=True, timeout=300, **options
    )


@pytest.fixture
def says(monkeypatch):
    """Let `mindport config PATH` answer, raise or print what a test wants."""
    monkeypatch.setattr(mindport.sources, "resolve", Path)

    def install(answer):
        def call(options):
            commands.model_path(options.path)
            return answer() if callable(answer) else answer

        table = cli.COMMANDS | {"config": commands.Command(**{**vars(cli.COMMANDS["config"]), "call": call})}
        monkeypatch.setattr(cli, "COMMANDS", table)

    return install


def fail(error: BaseException):
    def call():
        raise error

    return call


def test_a_positive_answer_exits_0(says, capfd):
    says(Answer(shown=(Table("keys", ("key", "class"), [("a", "mapped")]),)))
    assert cli.main(["config", "x"]) == 0
    assert capfd.readouterr().out == "4 of 4 hold\n\nkeys\nkey  class\n---  ------\na    mapped\n"


def test_a_negative_verdict_exits_1_with_an_answer(says, capfd):
    says(Answer(good=False, error=float("nan")))
    assert cli.main(["config", "x", "--json"]) == 1
    out, err = capfd.readouterr()
    assert json.loads(out)["ok"] is False and json.loads(out)["error"] == "nan" and err == ""


def test_an_answer_may_have_an_exit_code_of_its_own(says, capfd):
    says(Ended(good=False))
    assert cli.main(["config", "x"]) == 143 and capfd.readouterr().out.startswith("4 of 4 hold")


class Ended(Answer):
    """As of a training that SIGTERM ended, which has its answer all the same."""

    exit_code = 143


def test_what_the_work_prints_goes_to_stderr(says, capfd):
    def noisy():
        print("a progress line")
        os.write(1, b"[WARNING] a line from C++\n")
        ctypes.CDLL(None).printf(b"a line that C still holds in its buffer\n")
        return Answer()

    says(noisy)
    assert cli.main(["config", "x", "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["ok"] is True and len(out.splitlines()) == 1
    assert "a progress line" in err and "from C++" in err and "C still holds" in err


def test_an_input_error_exits_2_with_one_message(says, capfd):
    says(fail(ConfigError("unknown key", where="config.json", got="rope_thetaa", do="--allow rope_thetaa")))
    assert cli.main(["config", "x"]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("error: unknown key\n  where:    config.json\n") and "Traceback" not in err


def test_an_input_error_is_json_too_when_json_is_wanted(says, capfd):
    says(fail(ConfigError("unknown key", where=Path("config.json"), got=["a"])))
    assert cli.main(["config", "x", "--json"]) == 2
    error = {"what": "unknown key", "where": "config.json", "got": "['a']", "expected": None, "do": None}
    assert json.loads(capfd.readouterr().out) == {"ok": False, "error": error}


def test_a_fault_of_ours_keeps_its_traceback(says, capfd):
    says(fail(ZeroDivisionError("a bug")))
    assert cli.main(["config", "x", "--json"]) == 70
    out, err = capfd.readouterr()
    assert out == "" and "ZeroDivisionError: a bug" in err and "please report" in err


def test_a_missing_package_is_an_input_error_and_a_missing_module_of_ours_a_fault(says, capfd):
    says(fail(ModuleNotFoundError("No module named 'torch'", name="torch")))
    assert cli.main(["config", "x"]) == 2
    assert "torch" in capfd.readouterr().err
    says(fail(ModuleNotFoundError("No module named 'mindport.gone'", name="mindport.gone")))
    assert cli.main(["config", "x"]) == 70


def test_an_interrupt_exits_130(says, capfd):
    says(fail(KeyboardInterrupt()))
    assert cli.main(["config", "x"]) == 130
    assert capfd.readouterr() == ("", "interrupted\n")


@pytest.mark.parametrize(
    "words",
    [[], ["nope"], ["config"], ["config", "a", "--depth", "3"], ["convert", "a", "b", "--dtype", "int8"],
     ["verify", "a", "--layers", "two"], ["run", "--siz", "smoke"]],
)  # fmt: skip
def test_a_wrong_command_line_exits_2(words, capfd):
    assert cli.main(words) == 2
    err = capfd.readouterr().err
    assert err.startswith("error: ") and "--help" in err
    assert cli.main([*words, "--json"]) == 2
    assert json.loads(capfd.readouterr().out)["ok"] is False


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_each_command_has_help_with_an_example_that_parses(name, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([name, "--help"])
    assert caught.value.code == 0
    example = cli.COMMANDS[name].example
    assert f"example: {example}" in " ".join(capsys.readouterr().out.split())
    assert cli._parser().parse_args(example.split()[1:]).command is cli.COMMANDS[name].call


def test_options_reach_the_functions_behind(monkeypatch, tmp_path):
    calls: list[tuple] = []
    weights = type(sys)("mindport.weights")
    weights.convert = lambda *args, **kwargs: calls.append((args, kwargs)) or Answer()
    monkeypatch.setitem(sys.modules, "mindport.weights", weights)
    monkeypatch.setattr(mindport, "weights", weights, raising=False)
    words = ["convert", str(tmp_path), "dst", "--to", "huggingface", "--dtype", "bfloat16", "--format", "ckpt"]
    assert cli.main([*words, "--overwrite", "--allow", "a", "--allow", "b", "--padded-vocab", "64"]) == 0
    options = {"to": "huggingface", "dtype": "bfloat16", "file_format": "ckpt", "overwrite": True, "allow": ("a", "b"),
               "padded_vocab": 64}  # fmt: skip
    assert calls == [((tmp_path, Path("dst")), options)]


def test_version_and_module_entry():
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"mindport {mindport.__version__}\n")


def test_a_missing_directory_in_a_process_of_its_own():
    done = command("config", "no/such/model", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["got"] == "no/such/model"
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    code = "from mindport import cli; import sys; from tests.results_for_tests import Answer; import dataclasses as d\n"
    code += (
        "c = d.replace(cli.COMMANDS['doctor'], call=lambda o: Answer(says='x' * 10**6)); cli.COMMANDS['doctor'] = c\n"
    )
    code += "sys.exit(cli.main(['doctor']))"
    pipe = f'{{ "{sys.executable}" -c "$CODE"; echo $? >&2; }} | head -c 1'
    environment = os.environ | {"CODE": code, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300)
    assert done.stderr == "141\n"


def shell(line: str, *words: str, **variables: str) -> subprocess.CompletedProcess:
    """A line of bash in which "$@" is the command line."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONIO", "PYTHONUNB"))}
    return subprocess.run(["bash", "-c", line, "bash", sys.executable, "-m", "mindport", *words],
                          capture_output=True, text=True, timeout=300, env=environment | variables)  # fmt: skip


TINY = str(ROOT / "data/models/tiny-llama")
UNWRITABLE = [
    ("$@", ("config", TINY)), ("$@", ("config", "nope", "--json")), ("$@", ("config", TINY, "--json")),
    ("$@", ("--help",)), ("$@", ("config", "--help")), ("$@", ("--version",)),
]  # fmt: skip


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(("line", "words"), UNWRITABLE)
@pytest.mark.parametrize("stdout", [">/dev/full", ">&-"])
def test_an_answer_that_cannot_be_written_exits_2_and_says_so(stdout, line, words, buffered):
    done = shell(f'"{line}" {stdout}', *words, PYTHONUNBUFFERED=buffered)
    assert done.returncode == 2 and done.stdout == "", done.stderr
    assert "the answer cannot be written" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_an_error_that_cannot_be_said_keeps_its_code_and_stays_off_stdout(stderr):
    done = shell(f'"$@" {stderr}', "config", "nope")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    done = shell(f'"$@" {stderr}', "config", "nope", "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["ok"] is False
    assert shell(f'"$@" {stderr}', "config", TINY, "--json").returncode == 0


@pytest.mark.parametrize("line", [
    '{ "$@" --json; echo $? >&2; } | true', '{ "$@" 2>&1 >/dev/null; echo $? >&2; } 3>&1 | true',
    '{ "$@" --help; echo $? >&2; } | true',
])  # fmt: skip
def test_a_reader_that_went_away_before_the_error_is_no_verdict(line):
    done = shell("sleep 0; " + line.replace('"$@"', 'sleep 0.3; "$@"'), "config", "nope")
    assert done.stderr.splitlines()[-1] == "141" and "Traceback" not in done.stderr


@pytest.mark.parametrize("variables", [
    {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
])  # fmt: skip
def test_a_terminal_of_few_characters_gets_an_answer(variables):
    done = shell('"$@"', "config", TINY, **variables)
    assert done.returncode == 0 and r"\u2192 vocab_size" in done.stdout
    assert shell('"$@"', "config", "--help", **variables).returncode == 0


def test_json_is_ascii_and_whole(says, capfd):
    says(fail(ConfigError("no", got="\ud800 → é")))
    assert cli.main(["config", "x", "--json"]) == 2
    out, err = capfd.readouterr()
    assert out.isascii() and json.loads(out)["error"]["got"] == "\ud800 → é" and r"\ud800" in err


def test_no_file_takes_the_number_of_a_closed_stream(tmp_path):
    """With stderr closed, the first file that is opened would be number 2, and what C++ prints would go into it."""
    done = shell('"$@" 2>&-', "convert", TINY, str(tmp_path / "ms"), "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["ok"] is True


REFUSED = {
    "a path of 5000 characters": (("config", "x" * 5000), "File name too long"),
    "a target of 300 characters": (("convert", TINY, "y" * 300), "File name too long"),
    "a run into a file": (("run", "--size", "smoke", "--out", "/etc/passwd"), "File exists"),
    "a run into /proc": (("run", "--size", "smoke", "--out", "/proc/x"), "No such file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_system_refuses_is_an_input_error(case, capfd):
    words, fragment = REFUSED[case]
    assert cli.main(list(words)) == 2
    err = capfd.readouterr().err
    assert err.startswith("error: ") and fragment in err and "do:" in err and "Traceback" not in err and len(err) < 900


def test_an_error_of_the_system_without_a_file_is_said_too(says, capfd):
    says(fail(TimeoutError("the network is slow")))
    assert cli.main(["config", "x"]) == 2
    assert "the network is slow" in capfd.readouterr().err


KEYS = ({"\ud800": 1}, {"rms_norm_eps": 10**400}, {"rope_parameters": "yarn"}, {"hidden_act": "\udfff"})


@pytest.mark.parametrize("change", KEYS)
def test_a_hostile_config_is_a_negative_verdict_or_an_input_error(change, model, tmp_path, capfd):
    raw = json.loads((model / "config.json").read_text()) | change
    (model / "config.json").write_text(json.dumps(raw))
    assert cli.main(["config", str(model)]) == 1
    assert cli.main(["config", str(model), "--json"]) == 1
    assert cli.main(["convert", str(model), str(tmp_path / "ms")]) == 2
    assert "Traceback" not in capfd.readouterr().err


def test_half_a_character_in_an_allowed_key_goes_into_the_manifest(model, tmp_path, capfd):
    raw = json.loads((model / "config.json").read_text()) | {"\udcff": 1}
    (model / "config.json").write_text(json.dumps(raw))
    assert cli.main(["convert", str(model), str(tmp_path / "ms"), "--allow", "\udcff"]) == 0
    assert cli.main(["convert", str(tmp_path / "ms"), str(tmp_path / "back"), "--to", "huggingface"]) == 0


def test_doctor_needs_nothing_that_is_not_in_the_standard_library(tmp_path):
    """A Python that sees only our package still gets an answer, not a traceback."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'lib')!r}); "
         "from mindport.cli import main; sys.exit(main(['doctor', '--quick', '--json']))"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    answer = json.loads(done.stdout)
    assert answer["ok"] is False  # without packages the verdict is negative


@pytest.fixture
def model(tmp_path):
    """A copy of the bundled model that a test may spoil."""
    return Path(shutil.copytree(mindport.sources.resolve("tiny-llama"), tmp_path / "model"))


def test_a_config_goes_across_by_directory_and_by_file(model, capfd):
    for path in (model, model / "config.json"):
        assert cli.main(["config", str(path), "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["model_type"] == "llama"


def test_an_unknown_key_is_a_negative_verdict_until_it_is_allowed(model, capfd):
    config = json.loads((model / "config.json").read_text()) | {"new_scale": 2.0}
    (model / "config.json").write_text(json.dumps(config))
    assert cli.main(["config", str(model)]) == 1
    assert "new_scale" in capfd.readouterr().out
    assert cli.main(["config", str(model), "--allow", "new_scale"]) == 0


def test_a_conversion_answers_and_does_not_overwrite(model, tmp_path, capfd):
    words = ["convert", str(model), str(tmp_path / "converted"), "--json"]
    assert cli.main(words) == 0
    assert json.loads(capfd.readouterr().out)["accounting"]["converted"] == 39
    assert cli.main(words) == 2
    assert "there already" in json.loads(capfd.readouterr().out)["error"]["what"]


def test_usage_errors_are_mindport_errors():
    with pytest.raises(UsageError):
        cli._parser().parse_args(["config"])


def test_sigterm_ends_what_was_started(says, capfd):
    """`timeout`, or a scheduler: the process of a reference, or a user's that hangs, must not live on alone."""
    started = []

    def work():
        os.kill(os.getpid(), signal.SIGTERM)
        started.append(subprocess.run(["sleep", "60"]))

    says(work)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit, match="143"):
        cli.main(["config", "x"])
    out, err = capfd.readouterr()
    assert not started and out == "" and err == "terminated\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_follows_the_script_of_a_launch_is_its_own(capsys):
    for words, as_json in (
        (["launch", "--workers", "1", "no script", "--json"], False),
        (["launch", "--workers", "1", "no.py", "--json"], False),
        (["launch", "--workers=1", "--preflight", "--json", "no script"], True),
        (["launch", "--json", "--workers", "0", "no.py"], True),
    ):
        cli.main(words)
        assert capsys.readouterr().out.startswith("{") == as_json, words


def test_the_validation_of_the_planner_writes_no_run(tmp_path, capsys):
    assert cli.main(["plan", "--validate", "--out", str(tmp_path / "run")]) == 2
    assert "--validate and --out" in capsys.readouterr().err and not list(tmp_path.iterdir())
