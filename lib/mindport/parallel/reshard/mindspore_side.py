"""MindSpore's part of a resharding, in a process of its own: `side` asks, with a line of JSON each.

What it does not do as one would expect, in MindSpore 2.10:

- A parameter that two stages hold (a tied embedding) is lost on the later one, without a word, where the source has a
  strategy file and all new ranks need the same old ones; from a source without a strategy it is not. So everything is
  gathered first (no strategy for the target), then scattered (none for the source).
- A strategy file as JSON cannot be taken apart by stages when a pipeline is gathered; protobuf can.
- Where it starts processes (one for each stage) it does not look how they ended.
- `output_format` is ckpt unless told, whatever the source is.
- It reads whole files: a checkpoint that is one file needs memory for all of it. `transform_checkpoint_by_rank` does,
  too, and takes .ckpt only. So the files that it gets hold a few arrays each.
- It reads a strategy file several times over for each transform, and goes through all of it for each rank: minutes for
  a large model. So each transform gets the lines of the arrays that it is about, cut out of the whole file.
"""

from __future__ import annotations

import functools
import json
import resource
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindport.measure import memory
from mindport.processes import own_stdout

PREFIX = "checkpoint_"  # rank_3/checkpoint_3.safetensors: the name that mindformers' own transform gives
NOBODY = "nobody"  # stands in the strategy of a stage that has none of the arrays at hand


def main(argv: Sequence[str]) -> int:
    """Do what each line of stdin asks for; answer with what went wrong, if anything did, and the memory it took."""
    import mindspore  # noqa: F401  # before the memory is looked at

    answers = own_stdout()
    memory.reset_peak()
    before = memory.resident()
    for line in sys.stdin:
        order = json.loads(line)
        answer: dict[str, object] = {}
        try:
            OPERATIONS[order.pop("do")](**order)
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        forked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6  # a process for each stage
        answer["grew"] = max(memory.peak(), forked) - before
        print(json.dumps(answer), file=answers, flush=True)
    return 0


def write_strategy(path: str, matrix: list[int], stages: dict[str, dict[str, Any]], folder: str) -> None:
    """Strategy files: one for each stage in `folder`, as a training writes them, and all of them as one at `path`.

    Args:
        path: the file that is used.
        matrix: the devices of a stage, [copies, tp].
        stages: first rank of a stage → parameter → [tensor_map, opt_weight_shard_step, opt_weight_shard_size].
        folder: for the stages' files.
    """
    import mindspore as ms

    Path(folder).mkdir(parents=True)
    for stage, (rank, parameters) in enumerate(stages.items()):
        _write_stage(Path(folder) / f"ckpt_strategy_rank_{rank}.ckpt", stage, matrix, parameters)
    if len(stages) > 1:
        ms.merge_pipeline_strategys(folder, path)
    else:
        shutil.copyfile(Path(folder) / "ckpt_strategy_rank_0.ckpt", path)


def _write_stage(path: Path, stage: int, matrix: list[int], parameters: dict[str, Any]) -> None:
    from mindspore.train.node_strategy_pb2 import ParallelStrategyMap

    file = ParallelStrategyMap()
    file.current_stage = stage
    for name, (tensor_map, step, size) in parameters.items():
        _add(file, name, matrix, tensor_map, step, size)
    node = file.parallel_strategy_item.add()  # of operators we know nothing; merging reads the stage from it
    node.node_name, node.parallel_strategys.stage = f"stage{stage}", stage
    node.parallel_strategys.parallel_strategy.add().dim.append(1)
    path.write_bytes(file.SerializeToString())


def _add(file: Any, name: str, matrix: list[int], tensor_map: list[int], step: int, size: int) -> None:
    item = file.parallel_layout_item.add()
    item.param_name, layout = name, item.parallel_layouts
    layout.dev_matrix.add().dim.extend(matrix)
    layout.tensor_map.add().dim.extend(tensor_map)
    layout.param_split_shape.add()
    layout.indices_offset.add()
    layout.field, layout.opt_weight_shard_step, layout.opt_weight_shard_size = 0, step, size


def transform(source: str, target: str, before: str | None, after: str | None, names: list[str]) -> None:
    """Rank folders with arrays of these names → rank folders; a strategy of None is that of one whole copy."""
    import mindspore as ms

    made = [path and _cut(path, frozenset(names), f"{target}.{i}.ckpt") for i, path in enumerate((before, after))]
    ms.transform_checkpoints(source, target, PREFIX, *made, output_format="safetensors")


def _cut(path: str, names: frozenset[str], target: str) -> str:
    """A strategy file of some arrays; every stage must be in it, so that the ranks can be counted."""
    whole = _strategy(path)
    some = type(whole)()
    some.current_stage = whole.current_stage
    some.parallel_strategy_item.extend(whole.parallel_strategy_item)
    stages = {}
    for item in whole.parallel_layout_item:
        *stage, name = item.param_name.split("-", 1) if len(whole.parallel_strategy_item) > 1 else [item.param_name]
        stages.setdefault("-".join([*stage, NOBODY]), item.parallel_layouts.dev_matrix)
        if name in names:
            some.parallel_layout_item.add().CopyFrom(item)
    for name, matrix in stages.items():
        _add(some, name, list(matrix[0].dim), [-1], 0, 0)
    Path(target).write_bytes(some.SerializeToString())
    return target


@functools.cache
def _strategy(path: str) -> Any:
    from mindspore.train.node_strategy_pb2 import ParallelStrategyMap

    file = ParallelStrategyMap()
    file.ParseFromString(Path(path).read_bytes())
    return file


def convert(source: str, target: str) -> None:
    """A file of MindSpore's in its other format: .ckpt ↔ .safetensors, by the names' endings."""
    import mindspore as ms

    arrays = ms.load_checkpoint(source, format=_format(source))
    ms.save_checkpoint([{"name": n, "data": x} for n, x in arrays.items()], target, format=_format(target))


def _format(path: str) -> str:
    return Path(path).suffix.removeprefix(".")


OPERATIONS = {"strategy": write_strategy, "transform": transform, "convert": convert}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
