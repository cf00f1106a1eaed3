import pytest

from mindport.environment import packages

GOOD = {"numpy": "1.26.4", "safetensors": "0.7.0", "mindspore": "2.10.0", "torch": "2.13.0+cpu", "ipywidgets": "8.1.9"}


def test_the_list_is_that_of_pyproject():
    listed = packages.requirements()
    assert listed["numpy"].endswith("<2")
    assert listed["safetensors"].endswith("<0.8")
    assert {"mindspore", "ml_dtypes", "torch", "transformers", "papermill", "jupyterlab_widgets"} <= listed.keys()
    assert "pytest" not in listed
    assert packages.KNOWN_BAD.keys() <= listed.keys()
    assert packages.OPTIONAL.keys() <= listed.keys()


@pytest.mark.parametrize("name", GOOD)
def test_versions_on_the_list_pass(name):
    assert packages.check_package(name, packages.requirements()[name], GOOD[name]).state == "pass"


@pytest.mark.parametrize(
    ("name", "version", "state"),
    [
        ("numpy", "2.0.0", "error"),
        ("safetensors", "0.8.0", "error"),
        ("mindspore", "2.9.0", "warning"),
        ("transformers", "4.57.1", "warning"),
        ("papermill", "2.5.0", "warning"),
        ("jupyterlab_widgets", "1.1.0", "warning"),
        ("mindspore", None, "error"),
        ("tokenizers", None, "error"),
        ("torch", None, "warning"),
        ("ipywidgets", None, "warning"),
    ],
)
def test_versions_off_the_list(name, version, state):
    specifier = packages.requirements()[name]
    check = packages.check_package(name, specifier, version)
    assert check.state == state
    assert check.do == f"pip install '{name}{specifier}'"
    assert "//" not in check.do


def test_one_row_for_each_requirement_and_one_for_the_clash():
    checks = packages.check_packages(lambda name: None)
    assert [check.name for check in checks] == [*packages.requirements(), "the name aimv2"]


def test_vllm_beside_transformers_is_a_warning_about_the_name():
    check = packages.check_packages({"vllm": "0.9.2"}.get)[-1]
    assert check.state == "warning"
    assert "aimv2" in check.found
    assert packages.check_name_clash(None).state == "pass"


def test_an_installed_package_without_a_checkout_reads_its_metadata(tmp_path, monkeypatch):
    listed = ["numpy<2,>=1.26", "mindspore==2.10.*", 'pytest>=8; extra == "test"']
    monkeypatch.setattr(packages.metadata, "requires", lambda name: listed)
    assert packages.requirements(tmp_path / "absent.toml") == {"numpy": "<2,>=1.26", "mindspore": "==2.10.*"}


def test_install_command_carries_the_specifier():
    assert packages.install_command("numpy") == f"pip install 'numpy{packages.requirements()['numpy']}'"
    assert packages.install_command("elsewhere") == "pip install 'elsewhere'"
