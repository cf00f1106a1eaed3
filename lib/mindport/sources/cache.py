"""The folder that keeps what was fetched or built, between runs and for all projects of a user."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_directory() -> Path:
    """`$MINDPORT_CACHE`, or `mindport` in the platform's folder for a user's caches; not created here."""
    if chosen := os.environ.get("MINDPORT_CACHE"):
        return Path(chosen).expanduser().absolute()
    return _user_caches() / "mindport"


def _user_caches() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
