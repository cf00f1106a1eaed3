"""In a process of its own: signatures of MindSpore's API, msrun's options, and the script run to its refusal.

    python -m tests.parallel.ascend.child SCRIPT WEIGHTS PROCESSES < arguments of msrun, as JSON lists

The number of processes is told, not there: init, get_rank and get_group_size answer for it. The rest is MindSpore's.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import runpy
import sys
from pathlib import Path
from unittest import mock

import mindspore
import mindspore.communication
import mindspore.train
from mindspore.parallel import auto_parallel
from mindspore.parallel.cluster import run as msrun

OWNERS = ("AutoParallel", "Pipeline", "GradAccumulation", "Model", "CheckpointConfig", "ModelCheckpoint",
          "LossMonitor", "GeneratorDataset")  # fmt: skip
METHODS = {name: getattr(auto_parallel.AutoParallel, name)
           for name in ("dataset_strategy", "hsdp", "pipeline", "save_param_strategy_file")}  # fmt: skip
METHODS |= {"train": mindspore.train.Model.train, "shard": mindspore.ops.Primitive.shard,
            "add_pipeline_stage": mindspore.Parameter.add_pipeline_stage}  # fmt: skip


def signatures(script: str) -> list[str]:
    """Calls of MindSpore's classes and methods in the script that do not bind to what is installed."""
    space = runpy.run_path(script)  # not as __main__: nothing runs
    wrong, bound = [], 0
    for node in ast.walk(ast.parse(open(script).read())):
        if isinstance(node, ast.Call) and (target := resolved(node.func, space)) is not None:
            starred = any(isinstance(value, ast.Starred) for value in node.args)
            count = len(node.args) + (1 if starred else 0)  # *BETAS is two
            names = {keyword.arg: None for keyword in node.keywords}
            try:
                inspect.signature(target).bind(*[None] * count, **names)
                bound += 1
            except TypeError as error:
                wrong.append(f"{ast.unparse(node.func)}: {error}")
    return [*wrong, *([] if bound >= 15 else [f"only {bound} calls were looked at"])]


def resolved(func, space):
    """What a call of the script calls, when it is MindSpore's."""
    if isinstance(func, ast.Name) and func.id in OWNERS:
        return space[func.id]
    if isinstance(func, ast.Attribute) and func.attr in METHODS:
        return functools.partial(METHODS[func.attr], None)
    if isinstance(func, ast.Attribute) and ast.unparse(func.value) == "nn":
        return getattr(mindspore.nn, func.attr)
    return None


def options(arguments: list[str]) -> dict[str, object]:
    """What msrun reads from a command line of ours."""
    with mock.patch.object(sys, "argv", ["msrun", *arguments]):
        return vars(msrun.get_args())


def refusal(script: str, weights: str, processes: int) -> list[str]:
    """Where the run ends: the message, and the Python functions on the way."""
    import traceback

    with (
        mock.patch.object(mindspore.communication, "init", lambda: None),
        mock.patch.object(mindspore.communication, "get_group_size", lambda: processes),
        mock.patch.object(mindspore.communication, "get_rank", lambda: 0),
        mock.patch.object(auto_parallel, "get_group_size", lambda: processes),
        mock.patch.object(auto_parallel, "get_rank", lambda: 0),
        mock.patch.object(sys, "argv", [script, "--weights", weights, "--steps", "2"]),
    ):
        try:
            runpy.run_path(script, run_name="__main__")
        except Exception as error:  # the answer
            frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            return [type(error).__name__, str(error), *frames]
    return ["it ran"]


if __name__ == "__main__":
    commands = json.load(sys.stdin)
    spoiled = Path(sys.argv[1]).with_name("spoiled.py")
    spoiled.write_text(Path(sys.argv[1]).read_text().replace("optimizer_level=", "level="))
    answer = {"signatures": signatures(sys.argv[1]), "control": signatures(str(spoiled)),
              "msrun": [options(words) for words in commands],
              "refusal": refusal(sys.argv[1], sys.argv[2], int(sys.argv[3]))}  # fmt: skip
    print(json.dumps(answer))
