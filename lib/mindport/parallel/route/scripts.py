"""Shell scripts around a training: the start on each host, the dry run, the environment."""

from __future__ import annotations

import math
from collections.abc import Container

from mindport.parallel.plan import ESTIMATED, Candidate, Job

HEAD = "#!/usr/bin/env bash\n# Written by `mindport plan --out` for {layout}: {note}.\n# Not run here.\n"
LEVELS = {  # of msrun's --sim_level; MindSpore tutorials, DryRun
    0: "the graph is compiled: strategies, shapes and settings that do not fit are refused; needs CANN, no card",
    1: "and the memory of inputs and outputs is counted (lines \"peak memory usage\" with GLOG_v=1); needs no card",
    2: "and operators' workspace (rank<N>/memory_block.csv with MS_ALLOC_CONF=memory_tracker:True); needs a card",
    3: "and operators run on that card, so that the profiler shows their time; collectives are not real",
}  # fmt: skip
PORT = 8118
TIMEOUT = 1200  # seconds in which all hosts have to start


def launch(job: Job, best: Candidate, files: Container[str]) -> str:
    """`launch.sh`: msrun on one host of several; `files` are those that train."""
    hosts = hosts_of(job)
    arguments = 'host=${1:-0} address=${2:-127.0.0.1}' if hosts == 1 else (
        'host=${1:?the number of this host, from 0} address=${2:?the address of host 0}'
    )  # fmt: skip
    usage = "#\n# On the host: ./launch.sh\n" if hosts == 1 else (
        f"#\n# On each of the {hosts} hosts, all within {TIMEOUT} seconds: ./launch.sh HOST ADDRESS [PORT]\n"
        "# HOST counts from 0, ADDRESS is that of host 0, where the scheduler runs.\n"
    )  # fmt: skip
    return (
        _head(best)
        + usage
        + _training(files)
        + f"{arguments} port=${{3:-{PORT}}}\n"
        + f"exec msrun --worker_num={job.devices} --local_worker_num={job.devices // hosts} \\\n"
        + '    --node_rank="$host" --master_addr="$address" --master_port="$port" \\\n'
        + f'    --log_dir="logs/host$host" --join=True --cluster_time_out={TIMEOUT} "${{train[@]}}"\n'
    )


def dryrun(job: Job, best: Candidate, files: Container[str]) -> str:
    """`dryrun.sh`: one process for a rank of each pipeline stage, on a machine with CANN."""
    levels = "".join(f"#   {level}  {says}\n" for level, says in LEVELS.items())
    first = " ".join(str(stage * (job.devices // best.layout.pp)) for stage in range(best.layout.pp))
    return (
        _head(best)
        + "#\n# On one machine with CANN: ./dryrun.sh [LEVEL], default 1. On a CPU alone MindSpore refuses it.\n"
        + levels
        + _training(files)
        + "level=${1:-1}\n"
        + "export GLOG_v=1  # the figures of the memory are logged as information\n"
        + f"for rank in {first}; do  # the first of each pipeline stage\n"
        + f'    msrun --sim_level="$level" --sim_rank_id="$rank" --worker_num={job.devices} --local_worker_num=1 \\\n'
        + '        --log_dir="dryrun/rank$rank" --join=True "${train[@]}"\n'
        + '    grep -h "peak memory usage" "dryrun/rank$rank"/worker_*.log || true\ndone\n'
    )


def environment(job: Job, best: Candidate) -> str:
    """`environment.sh`: variables that exist, each with its reason; what is off by default is a comment."""
    buffer = math.ceil(best.batch * job.seq * job.model.hidden_size * job.element / 2**20)
    cards = ",".join(map(str, range(min(job.devices, job.host_size))))
    lines = [
        "unset RANK_TABLE_FILE RANK_ID RANK_SIZE DEVICE_ID MS_SIMULATION_LEVEL  # msrun sets what it needs",
        "export HCCL_CONNECT_TIMEOUT=1800  # seconds; stages compile for different times, and mindspore sets 600",
        "# export HCCL_EXEC_TIMEOUT=3600  # seconds, default 1836: one rank saves while the others wait",
        "# export MS_NODE_TIMEOUT=300  # seconds without a heartbeat after which the job ends",
        f"# export HCCL_BUFFSIZE={max(buffer, 1)}  # MB, default 200, twice for each communicator; this is one "
        "micro-batch's hidden states",
        f"# export ASCEND_RT_VISIBLE_DEVICES={cards}  # only to leave some out; ascending",
        "# export HCCL_SOCKET_IFNAME=eth0  # where a host has several networks: the one that the others reach",
        "# export MS_ALLOC_CONF=memory_tracker:True  # who holds the memory, for the checklist",
        "# export GLOG_v=1  # information too; 2, the default, warnings",
    ]
    return _head(best) + "# MASTER_ADDR, WORLD_SIZE and MS_ENABLE_HCCL are nothing to MindSpore.\n" + "".join(
        f"{line}\n" for line in lines
    )  # fmt: skip


def hosts_of(job: Job) -> int:
    """Servers that the cards fill."""
    return max(1, job.devices // job.host_size)


def _head(best: Candidate) -> str:
    return HEAD.format(layout=best.layout, note=ESTIMATED)


def _training(files: Container[str]) -> str:
    """What is started: MindSpore Transformers by its YAML, or our own model."""
    theirs = "train=(train_mindformers.py train.yaml)\n"
    ours = 'train=(train_ascend.py --weights "${WEIGHTS:?a directory that mindport convert wrote}")\n'
    start = 'set -euo pipefail\ncd "$(dirname "$0")"\nsource ./environment.sh\n'
    if "train.yaml" not in files:
        return start + ours
    if "train_ascend.py" not in files:
        return start + theirs
    choice = f"if [[ ${{TRAIN:-}} == ours ]]; then {ours.strip()}; fi\n"
    return f"# With TRAIN=ours WEIGHTS=DIR in the environment it takes MindPort's own model.\n{start}{theirs}{choice}"
