"""Where the config.json of a model is, or which of the usual mistakes its absence is."""

from __future__ import annotations

from pathlib import Path

from mindport.errors import FileError, some

LONGEST = 255  # bytes of a file's name on the usual disks


def is_plain(name: str) -> bool:
    """Whether it is the name of a file in a directory, and not a path that leads elsewhere."""
    fits = 0 < len(name.encode("utf-8", "surrogatepass")) <= LONGEST
    return fits and Path(name).name == name and name not in (".", "..") and "\0" not in name


def is_reachable(directory: Path) -> bool:
    """Whether it is a directory that we may look into: a path too long, or in another user's home, is none."""
    try:
        return directory.is_dir()
    except (OSError, ValueError):
        return False


def find_config(path: Path) -> Path:
    """The config.json that `path` is or holds.

    Raises:
        FileError: says which of the usual mistakes it is: nothing there, an unfinished download, another format.
    """
    if path.is_file():
        return path
    if (path / "config.json").is_file():
        return path / "config.json"
    if not path.exists():
        raise FileError("there is no such directory", where=path, do="name a Hugging Face directory")
    if not path.is_dir():
        raise FileError("a device or pipe, not a directory", where=path, do="name a Hugging Face directory")
    names = sorted(item.name for item in path.iterdir())
    if "config.json" in names:
        raise FileError("config.json is no file, or a link to nothing", where=path, do="finish the download")
    if not names:
        what, do = "the directory is empty", "the download has not begun, or this is another folder"
    elif any(name.endswith(".gguf") for name in names):
        what, do = (
            "GGUF files, not a Hugging Face directory",
            "use the original safetensors; `mindport fetch` reads its own",
        )
    else:
        what, do = "no config.json here", "name the folder that holds config.json, or finish the download"
    raise FileError(what, where=path, got=some(names, 5) or None, expected="config.json and weights", do=do)
