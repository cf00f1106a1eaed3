"""How operators are launched on this device."""

from __future__ import annotations

import mindspore as ms


def settle() -> None:
    """On a CPU, run each operator in the thread that calls it.

    MindSpore's queue between Python and the operators hides the latency of an accelerator. On a CPU the two ends of
    it spin for the same cores: on a busy machine a small model's forward pass in PyNative takes many times as long.
    Without the queue an error is also raised by the operator that caused it. Other devices keep it.

    It has an effect only before the first operator of the process, so importing `mindport.model` calls it.
    """
    if ms.get_context("device_target") == "CPU":
        ms.runtime.launch_blocking()
