"""How long cards talk: collectives over a full mesh inside a server, and one port a card between servers.

Ranks are numbered with tensor parallelism innermost, then context, data and pipeline: a group of n cards that stand
`stride` apart has min(n, host / stride) of them on one server. Bytes per step and the factors 2 (t - 1) / t of an
all-reduce are the usual ones of a ring; a mesh sends the same bytes over all its links at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.parallel.plan.job import Job


@dataclass(frozen=True)
class Group:
    """Cards that talk to each other: how many, and how far apart in rank. Arrays or numbers."""

    size: np.ndarray
    stride: np.ndarray


def gather(job: Job, count: np.ndarray, group: Group) -> np.ndarray:
    """Seconds of an all-gather, or of a reduce-scatter, of `count` bytes in all."""
    inside = np.clip(job.host_size // group.stride, 1, group.size)
    servers = -(-group.size // inside)
    links = np.where(inside > 1, count / inside / job.hardware["link"], 0)
    ports = count / inside * (servers - 1) / servers / job.hardware["network"]
    return np.where(group.size > 1, links + ports + rounds(group.size) * job.hardware["latency"], 0)


def all_reduce(job: Job, count: np.ndarray, group: Group) -> np.ndarray:
    """Seconds: a reduce-scatter and an all-gather."""
    return 2 * gather(job, count, group)


def send(job: Job, count: np.ndarray, stride: np.ndarray) -> np.ndarray:
    """Seconds from a card to the one `stride` ranks on."""
    speed = np.where(stride < job.host_size, job.hardware["link"], job.hardware["network"])
    return count / speed + job.hardware["latency"]


def rounds(size: np.ndarray) -> np.ndarray:
    """Rounds of a collective that halves the distance each time."""
    return np.ceil(np.log2(np.maximum(size, 1)))
