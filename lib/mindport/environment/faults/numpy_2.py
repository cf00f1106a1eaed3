"""What MindSpore 2.10 does under NumPy 2 at the first operation of a process. For lessons and tests only."""

from __future__ import annotations


class Tensor:
    """Is made without complaint, as the real one is."""

    def __init__(self, data: object) -> None:
        self.data = data

    def __add__(self, other: object) -> Tensor:
        raise SystemError("<built-in method add of PyCapsule object> returned a result with an exception set")
