"""Execute one notebook in a kernel of its own, and keep the executed copy as .ipynb and .html."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindport.errors import NotebookError
from mindport.files import write_text

WIDGET = "application/vnd.jupyter.widget-view+json"
COLOR = re.compile(r"\x1b\[[0-9;]*m")
MESSAGE_LINES = 12  # of an error, before it is cut
DO_OPEN = "open the executed copy at that cell; the cell after it says what usually causes this"
DO_MEMORY = "most often memory ran out: take a smaller model or --size smoke, or close other programs"


def declared(path: Path) -> set[str]:
    """The names in the cell tagged `parameters`.

    Raises:
        NotebookError: the file is not a notebook.
    """
    import papermill

    try:
        return set(papermill.inspect_notebook(str(path)))
    except Exception as error:  # papermill, nbformat and json each have errors of their own for a damaged file
        got = f"{type(error).__name__}: {error}"
        raise NotebookError("the notebook cannot be read", where=path, got=got) from error


def execute(
    source: Path, target: Path, parameters: Mapping[str, Any], *, kernel: str, cwd: Path, timeout: int, bar: bool
) -> None:
    """Run every cell of `source`; `target` (.ipynb) and its .html hold what happened, also after an error.

    Args:
        source: the notebook, which stays as it is.
        target: the executed copy.
        parameters: values for its `parameters` cell.
        kernel: name of the kernel.
        cwd: working directory of the kernel.
        timeout: seconds for one cell.
        bar: draw a progress bar.

    Raises:
        NotebookError: a cell raised, took too long, or the kernel is missing or died.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _papermill(source, target, parameters, kernel, cwd, timeout, bar)
    finally:
        if target.exists():
            _clean(target)


def _papermill(
    source: Path, target: Path, parameters: Mapping[str, Any], kernel: str, cwd: Path, timeout: int, bar: bool
) -> None:
    import papermill
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    try:
        papermill.execute_notebook(
            str(source), str(target), dict(parameters), kernel_name=kernel, cwd=str(cwd), progress_bar=bar,
            execution_timeout=timeout, start_timeout=120, extra_arguments=["--IPKernelApp.log_level=ERROR"],
        )  # fmt: skip
    except PapermillExecutionError as error:
        raise _stopped(target, error) from None
    except DeadKernelError:
        raise NotebookError("the kernel died", where=_running(target), got="no reply any more", do=DO_MEMORY) from None
    except CellTimeoutError:
        got = f"more than {timeout} s"
        raise NotebookError(
            "a cell took too long", where=_running(target), got=got, do="take a smaller model"
        ) from None
    except NoSuchKernel as error:
        raise NotebookError(
            "there is no such kernel", where=source, got=error.name,
            do="register one: python -m ipykernel install --sys-prefix",
        ) from None  # fmt: skip


def _stopped(target: Path, error: Any) -> NotebookError:
    message = COLOR.sub("", error.evalue).splitlines() or ["no message"]
    cut = ["…"] * (len(message) > MESSAGE_LINES)
    return NotebookError(
        "a cell of the notebook raised",
        where=f"{target}, cell [{error.exec_count}]: {_first_line(error.source)}",
        got="\n            ".join([f"{error.ename}: {message[0]}", *message[1:MESSAGE_LINES], *cut]),
        do=DO_OPEN,
    )


def _running(target: Path) -> str:
    """The last cell that was started, from the copy that papermill keeps."""
    cells = [cell for cell in _load(target).cells if cell.metadata.get("papermill", {}).get("start_time")]
    codes = [cell for cell in cells if cell.cell_type == "code"]
    return f"{target}, cell [{len(codes)}]: {_first_line(codes[-1].source)}" if codes else str(target)


def _first_line(source: str) -> str:
    lines = (line.strip() for line in source.splitlines())
    return next((line for line in lines if line and not line.startswith("#")), "")


def _load(path: Path) -> Any:
    import nbformat

    return nbformat.read(str(path), as_version=4)


def _clean(target: Path) -> None:
    """Drop the state of widgets (their static twins stay), and write the page beside the copy."""
    import nbformat
    from nbconvert import HTMLExporter

    notebook = _load(target)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(WIDGET, None)
    write_text(target, nbformat.writes(notebook))
    exporter = HTMLExporter(template_name="classic", require_js_url="", jquery_url="", mathjax_url="")
    write_text(target.with_suffix(".html"), exporter.from_notebook_node(notebook)[0])
