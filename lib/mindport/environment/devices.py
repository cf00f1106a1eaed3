"""Ascend devices: which are visible, to whom, and who holds them. On a CPU there is nothing to claim."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from mindport.environment.check import Check

GROUP = "devices"
CPU_ONLY = "CPU only: nothing is claimed for Ascend"
PROCESS_VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"  # read by the runtime of one process
CONTAINER_VARIABLE = "ASCEND_VISIBLE_DEVICES"  # read by the container runtime when the container starts

_CARD = re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*(\w+)\s*\|", re.MULTILINE)
_HOLDER = re.compile(r"^\|\s*(\d+)\s+(\d+)\s*\|\s*(\d+)\s*\|\s*(\S*)\s*\|\s*(\d+)\s*\|", re.MULTILINE)


@dataclass(frozen=True)
class Card:
    """A line of `npu-smi info`: the NPU's number, its name, and its health ("OK")."""

    npu: int
    name: str
    health: str


@dataclass(frozen=True)
class Holder:
    """A process that holds device memory."""

    npu: int
    pid: int
    name: str
    megabytes: int


def check_devices(environ: Mapping[str, str] = os.environ) -> tuple[Check, ...]:
    """The cards, who holds their memory, and the two visibility variables."""
    program = shutil.which("npu-smi", path=environ.get("PATH"))
    none = Check("NPU", GROUP, "pass", CPU_ONLY, "npu-smi on an Ascend machine")
    cards = check_cards(program) if program else (none,)
    return (*cards, check_process_variable(environ.get(PROCESS_VARIABLE)), check_container_variable(environ))


def check_cards(program: str) -> tuple[Check, ...]:
    """Run `npu-smi info`: one row for the cards and one for the processes that hold their memory."""
    try:
        done = subprocess.run([program, "info"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (_no_answer(str(error)),)
    cards, holders = parse_cards(done.stdout), parse_holders(done.stdout)
    if done.returncode or not cards:
        return (_no_answer((done.stdout + done.stderr).strip()[-200:] or f"exit code {done.returncode}"),)
    return _judge_cards(cards), _judge_holders(holders)


def parse_cards(text: str) -> tuple[Card, ...]:
    """The cards in the text of `npu-smi info`."""
    return tuple(Card(int(npu), name, health) for npu, name, health in _CARD.findall(text) if not name.isdigit())


def parse_holders(text: str) -> tuple[Holder, ...]:
    """The processes in the text of `npu-smi info`; some drivers leave the name empty."""
    return tuple(Holder(int(npu), int(pid), name, int(mb)) for npu, _, pid, name, mb in _HOLDER.findall(text))


def check_process_variable(value: str | None) -> Check:
    """`ASCEND_RT_VISIBLE_DEVICES`: unset, or logical numbers in ascending order (CANN's environment reference)."""
    expected = "unset, or ascending numbers such as 0,1,3"
    if value is None:
        return Check(PROCESS_VARIABLE, GROUP, "pass", "unset: every card of its container", expected)
    numbers = [int(part) for part in value.split(",")] if re.fullmatch(r"\d+(,\d+)*", value) else []
    if numbers and all(a < b for a, b in itertools.pairwise(numbers)):
        return Check(PROCESS_VARIABLE, GROUP, "pass", value, expected)
    do = f"unset {PROCESS_VARIABLE}, or list the numbers in ascending order; the launcher gives out the ranks"
    return Check(PROCESS_VARIABLE, GROUP, "error", repr(value), expected, do)


def check_container_variable(environ: Mapping[str, str]) -> Check:
    """`ASCEND_VISIBLE_DEVICES` chooses the cards a *container* is given; setting it inside changes nothing."""
    value, expected = environ.get(CONTAINER_VARIABLE), "set by the container's start, or unset"
    if value is None:
        return Check(CONTAINER_VARIABLE, GROUP, "pass", "unset: no cards given to a container by it", expected)
    return Check(CONTAINER_VARIABLE, GROUP, "pass", f"{value}: given to the container when it started", expected)


def _judge_cards(cards: tuple[Card, ...]) -> Check:
    found = ", ".join(f"{card.npu}: {card.name} {card.health}" for card in cards)
    if all(card.health == "OK" for card in cards):
        return Check("NPU", GROUP, "pass", found, "every card OK")
    return Check("NPU", GROUP, "error", found, "every card OK", "ask the machine's keeper, or leave that card out")


def _judge_holders(holders: tuple[Holder, ...]) -> Check:
    name, expected = "NPU memory", "held by nobody else"
    if not holders:
        return Check(name, GROUP, "pass", "no running processes", expected)
    found = "; ".join(f"NPU {h.npu}: {h.name or 'process'} {h.pid} holds {h.megabytes:,} MB" for h in holders)
    do = "if one of these is your own old kernel, shut that kernel down; otherwise choose another card"
    return Check(name, GROUP, "warning", found, expected, do)


def _no_answer(found: str) -> Check:
    do = "is the driver loaded, and are /dev/davinci* and the driver's folder visible in this container?"
    return Check("NPU", GROUP, "error", f"npu-smi gives no card: {found}", "a list of cards", do)
