"""Where relative paths of a notebook begin: at the repository, whatever folder the editor starts kernels in."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def rooted(path: str | Path) -> Path:
    """`path` itself when it is absolute; else below the repository, or below the working directory without one.

    JupyterLab starts a kernel in `notebooks/`, VS Code in the opened folder, papermill where it was told to.
    """
    path = Path(path).expanduser()
    base = REPOSITORY if (REPOSITORY / "notebooks").is_dir() else Path.cwd()
    return path if path.is_absolute() else base / path
