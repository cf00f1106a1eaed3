"""From a plan to a run on a cluster: a folder of files. None of them was run: there is no NPU here."""

from __future__ import annotations

from mindport.parallel.route.route import Route, write_route

__all__ = ["Route", "write_route"]
