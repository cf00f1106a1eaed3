"""The installed packages, held to the one list of dependencies, that of pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from mindport.environment.check import Check
from mindport.environment.version_numbers import satisfies
from mindport.environment.versions import package_version

GROUP = "packages"
PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"  # in a checkout

# A version outside the list is untested, a warning; of these it is known to be wrong, an error.
KNOWN_BAD = {
    "numpy": "with NumPy 2, MindSpore 2.10 fails in the first tensor operation of a process",
    "safetensors": "0.8 writes wrong bytes for a transposed array, silently",
}
# A package that is missing is an error; without these something smaller is lost, a warning.
OPTIONAL = {
    "torch": "without it, step 03 compares with a saved trace",
    "transformers": "without it, step 03 compares with a saved trace",
    "gguf": "without it, `mindport fetch smollm2` cannot read the model",
    "jupyterlab": "VS Code needs none",
    "ipywidgets": "without it, the static twin of each widget stays",
    "jupyterlab_widgets": "the browser's half of ipywidgets 8; without it, the static twin of each widget stays",
}


def check_packages(lookup: Callable[[str], str | None] = package_version) -> tuple[Check, ...]:
    """One row for each dependency, and one for the known clash of names with vLLM."""
    rows = (check_package(name, specifier, lookup(name)) for name, specifier in requirements().items())
    return (*rows, check_name_clash(lookup("vllm")))


def check_package(name: str, specifier: str, version: str | None) -> Check:
    """Hold one installed version (None: absent) to its specifier."""
    why = KNOWN_BAD.get(name) or OPTIONAL.get(name, "")
    expected = f"{specifier} ({why})" if why else specifier
    do = f"pip install '{name}{specifier}'"
    if version is None:
        return Check(name, GROUP, "warning" if name in OPTIONAL else "error", "not installed", expected, do)
    if not satisfies(version, specifier):
        return Check(name, GROUP, "error" if name in KNOWN_BAD else "warning", version, expected, do)
    return Check(name, GROUP, "pass", version, expected)


def requirements(pyproject: Path = PYPROJECT) -> dict[str, str]:
    """Each dependency of MindPort and its specifier: from the checkout, or from the installed package.

    Raises:
        PackageNotFoundError: there is neither.
    """
    if pyproject.is_file():
        block = pyproject.read_text(encoding="utf-8").partition("\ndependencies = [")[2].partition("\n]")[0]
        listed = re.findall(r'^\s*"([^"]+)"', block, re.MULTILINE)
    else:
        listed = [entry for entry in metadata.requires("mindport") or [] if "extra ==" not in entry]
    return dict(_split(entry) for entry in listed)


def install_command(module: str) -> str:
    """The pip command for a missing module, with its specifier where the list has one."""
    return f"pip install '{module}{requirements().get(module, '')}'"


def check_name_clash(vllm: str | None) -> Check:
    """vLLM's Ovis config registers the name `aimv2`, which transformers 4.54 and later has itself.

    Source: vllm pull request 20921.
    """
    name = "the name aimv2"
    if vllm is None:
        return Check(name, GROUP, "pass", "vllm is not installed", "one owner of the name")
    found = f"vllm {vllm} beside transformers: an import may stop with \"'aimv2' is already used\""
    do = "keep vllm in another environment; the message is a clash of names and says nothing about your migration"
    return Check(name, GROUP, "warning", found, "one owner of the name", do)


def _split(requirement: str) -> tuple[str, str]:
    """`numpy>=1.26,<2; python_version > "3"` as name and specifier."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return name.group(), requirement[name.end() :].partition(";")[0].strip()
