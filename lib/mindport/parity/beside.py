"""`mindport train CONFIG --beside-torch`: our training, then the same one in torch, and both curves held together.

    ours        the trainer as it is, with a callback that keeps every batch, every step and the measurements
    the other   a process of its own: transformers from the same weights, on those batches, by the same recipe

The two run one after the other, each alone on the machine. Their speeds are of two moments therefore; `mindport bench
train` times both in turn.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mindspore as ms
