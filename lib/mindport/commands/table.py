"""The table of commands: what each is called, says and accepts."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.commands import calls
from mindport.results import Result


@dataclass(frozen=True)
class Command:
    """One line of the table: what to call, what to say, what to accept."""

    call: Callable[[argparse.Namespace], Result]
    says: str
    example: str
    arguments: tuple[tuple[tuple[str, ...], dict[str, Any]], ...]


def _arg(*names: str, **options: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return names, options


def _positive(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < float("inf"):
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no time: a number of seconds above 0")


def _variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if sign and name and "\0" not in text:
        return name, value
    raise argparse.ArgumentTypeError(f"{text!r} is no variable: NAME=VALUE")


_FLAG: dict[str, Any] = {"action": "store_true"}
_MODEL_HELP = "a Hugging Face directory, or a name that `mindport fetch` knows"

_ALLOW = _arg("--allow", nargs="+", action="extend", default=[], metavar="KEY", help="unknown keys to let pass")
_PADDED = _arg("--padded-vocab", type=int, metavar="N", help="the embedding has N rows; beyond vocab_size is padding")
_SETTINGS = (
    _arg("--out", metavar="DIR", help="the run's directory, in place of the file's"),
    _arg("--steps", type=int, metavar="N", help="in place of the file's"),
    _arg("--set", action="append", default=[], metavar="KEY=VALUE", help="one field: --set optimizer.lr=1e-4"),
)

COMMANDS = {
    "doctor": Command(
        calls.doctor, "check this machine: packages, versions, devices, probes that do the thing",
        "mindport doctor --quick",
        (_arg("--quick", **_FLAG, help="leave the probes out"),),
    ),
    "fetch": Command(
        calls.fetch, "get a bundled model or text", "mindport fetch smollm2",
        (_arg("name", metavar="NAME"), _arg("--to", type=Path, metavar="DIR", help="put it here, not in the cache")),
    ),
    "config": Command(
        calls.config, "map a config.json: every key mapped, derived, harmless, refused or unknown",
        "mindport config models/llama --allow my_key",
        (_arg("path", metavar="PATH", help=_MODEL_HELP), _ALLOW, _PADDED),
    ),
    "convert": Command(
        calls.convert, "convert weights, account for each tensor, and read the result back",
        "mindport convert models/llama models/llama-ms --dtype float32",
        (_arg("source", metavar="SRC", help=_MODEL_HELP), _arg("target", type=Path, metavar="DST"),
         _arg("--to", default="mindspore", metavar="TARGET",
              help="mindspore, huggingface, mindformers-llama, mindformers-llama-concat, mindformers-mcore or "
              "mindformers-gpt2"),
         _arg("--dtype", choices=("keep", "float32", "float16", "bfloat16"), default="keep"),
         _arg("--format", choices=("safetensors", "ckpt"), default="safetensors"),
         _arg("--overwrite", **_FLAG, help="replace DST"), _ALLOW, _PADDED),
    ),
    "export": Command(
        calls.export, "write the YAML with which MindSpore Transformers trains what `convert --to mindformers-…` wrote",
        "mindport export models/llama-mf --layout dp2,tp2,pp2,zero1,sp,mb8 --yaml llama.yaml",
        (_arg("directory", type=Path, metavar="DIR", help="weights that `mindport convert` wrote for it"),
         _arg("--yaml", type=Path, metavar="OUT", required=True, help="the file to write"),
         _arg("--layout", default="dp1,tp1,pp1", help="all of dp8,tp4,pp2,cp2,zero1,sp,recompute-selective,mb8; "
              "docs/planner.md says how to read it"),
         _arg("--schema", choices=("graph", "pynative"), default="graph", help="pynative: mindformers 2.x"),
         _arg("--seq-length", type=int, metavar="N", help="tokens of a sample; default: the model's context"),
         _arg("--data", metavar="PATH", help="training data: MindRecord for legacy networks, else Megatron's"),
         _arg("--recompute", **_FLAG, help="as recompute-full in the layout")),
    ),
    "verify": Command(
        calls.verify, "compare the MindSpore model with transformers, layer by layer, and step by step",
        "mindport verify models/llama --steps 50",
        (_arg("directory", metavar="DIR", help=_MODEL_HELP),
         _arg("--converted", type=Path, metavar="DIR", help="weights that `mindport convert` wrote"),
         _arg("--trace", type=Path, metavar="DIR", help="a saved reference, where torch is absent"),
         _arg("--layers", type=int, metavar="N", help="only the first N layers"),
         _arg("--steps", type=int, default=0, metavar="N",
              help="train both N steps as well: gradients, optimizer, losses; 32 bytes a parameter"), _ALLOW, _PADDED),
    ),
    "faultlab": Command(
        calls.faultlab, "plant faults one by one into small models, and see whether each is found and named",
        "mindport faultlab --only swap theta no_mask",
        (_arg("--only", nargs="+", action="extend", default=[], metavar="NAME", help="these faults only"),),
    ),
    "trace": Command(
        calls.trace, "write down what each module computes", "mindport trace demo.py:build --out traces/torch",
        (_arg("what", metavar="WHAT", help="FILE.py:FUNCTION that returns (module, inputs), or a model as for verify"),
         _arg("--out", type=Path, metavar="DIR", required=True), _arg("--overwrite", **_FLAG, help="replace DIR"),
         _arg("--framework", choices=("torch", "mindspore")), _arg("--match", metavar="REGEX", help="of module paths"),
         _arg("--dropout", **_FLAG, help="train mode, as the seed draws it"), _arg("--seed", type=int, default=0),
         _arg("--layers", type=int, metavar="N", help="only the first N layers"), _ALLOW, _PADDED),
    ),
    "compare": Command(
        calls.compare,
        "hold trace B against trace A, value by value", "mindport compare A B --map norm=ln --limit 1e-4",
        (_arg("a", type=Path, metavar="A"), _arg("b", type=Path, metavar="B"), _arg("--limit", type=float, metavar="X"),
         _arg("--map", action="append", default=[], metavar="RULE", help="A's name=B's name, or FILE.yaml"),
         _arg("--padding", metavar="ARRAY", help="of A, 0 where padding is; ARRAY=N: N; default: attention_mask")),
    ),
    "train": Command(
        calls.train, "train by a configuration: text to checkpoints that resume exactly, watched and measured",
        "mindport train data/training/tiny-gpt2.yaml --steps 20 --out runs/try",
        (_arg("config", nargs="?", type=Path, metavar="CONFIG", help="a YAML file; --example writes one"),
         _arg("--example", metavar="MODEL", help="print a whole configuration for this model, each field explained"),
         _arg("--resume", **_FLAG, help="go on from the newest checkpoint of the run, exactly"),
         _arg("--overwrite", **_FLAG, help="begin again in the directory of an earlier run"),
         _arg("--beside-torch", **_FLAG,
              help="then the same in transformers, from the same weights and batches: losses, speed, memory compared"),
         *_SETTINGS),
    ),
    "prepare": Command(
        calls.prepare, "make the tokens of a training beforehand; `train` does it where it was not done",
        "mindport prepare data/training/tiny-gpt2.yaml",
        (_arg("config", type=Path, metavar="CONFIG", help="the training's YAML file"), *_SETTINGS),
    ),
    "layouts": Command(
        calls.layouts, "train under each layout, as real processes, and hold every loss to one process",
        "mindport layouts data/training/tiny-gpt2.yaml dp2 tp2 dp2,tp2 --steps 20",
        (_arg("config", type=Path, metavar="CONFIG", help="the training's YAML file"),
         _arg("layouts", nargs="+", metavar="LAYOUT", help="degrees of data and tensor parallelism: dp2, tp2, dp2,tp2"),
         *_SETTINGS),
    ),
    "gather": Command(
        calls.gather, "put a checkpoint together that several processes wrote, each its own share",
        "mindport gather runs/x/checkpoints/step-00000100 models/x-100",
        (_arg("source", type=Path, metavar="SRC", help="a directory step-… of a training with checkpoints.sharded"),
         _arg("target", type=Path, metavar="DST"), _arg("--overwrite", **_FLAG, help="replace DST")),
    ),
    "bench": Command(
        calls.bench, "time ours beside a peer, in one run, and hold the two to the same numbers",
        "mindport bench step --json step.json",
        (_arg("name", metavar="NAME",
              help="attention, layer, step, train: beside PyTorch; knobs: the step with one fast formulation off at a "
              "time; convert: weights, beside a plain copy of the same bytes; data: text to batches, beside Hugging "
              "Face datasets and DataLoader"),
         _arg("--quick", **_FLAG, help="tiny shapes, to see that it works; the times mean nothing"),
         _arg("--json", nargs="?", type=Path, const=True, default=False, metavar="FILE",
              help="write the result to FILE as well; without FILE, answer with one JSON object on stdout")),
    ),
    "claims": Command(
        calls.claims, "run the checks of what articles claim about MindSpore, and compare with the ledger's verdicts",
        "mindport claims --only C019 C031",
        (_arg("--only", nargs="+", action="extend", default=[], metavar="ID", help="these claims"),
         _arg("--topic", nargs="+", action="extend", default=[], metavar="TOPIC",
              help="those of a topic: environment, attention, layers, modes, weights, training, …")),
    ),
    "coverage": Command(
        calls.coverage, "which torch operators a source or a module uses, and which of them run in MindSpore here",
        "mindport coverage modeling_llama.py",
        (_arg("target", nargs="?", metavar="PATH_OR_MODULE",
              help="a Python file, a directory or package.module, which is read and never executed; or "
              "package.module:Name, a live module that is made and called"),
         _arg("--list", **_FLAG, help="show the table of operators; nothing is tried"),
         _arg("--timeout", type=_seconds, default=120.0, metavar="S", help="seconds for a live module")),
    ),
    "plan": Command(
        calls.plan, "rank the ways to lay a training out over cards, by estimates; or hold these to published figures",
        "mindport plan models/llama --devices 8 --device 910B --seq 4096 --global-batch 256",
        (_arg("path", nargs="?", metavar="CONFIG", help=f"{_MODEL_HELP}, or a config.json"),
         _arg("--validate", **_FLAG, help="predict published rows, with one constant fitted on half of them"),
         _arg("--devices", type=_positive, metavar="N", help="cards; default: what the layout has, or 8"),
         _arg("--layout", metavar="LAYOUT", help="look at this one only: dp4,tp2,zero1,sp,recompute-full,mb8; "
              "docs/planner.md says how to read it, mb is the number of micro-batches"),
         _arg("--device", default="910B", metavar="NAME", help="910B (910B1 to 910B4) or 910A"),
         _arg("--seq", type=_positive, metavar="N", help="tokens of a sample; default: the context, at most 4096"),
         _arg("--global-batch", type=_positive, default=256, metavar="N", help="samples of an optimizer step"),
         _arg("--micro-batch", type=_positive, metavar="N", help="samples of a micro-batch; default: tries all"),
         _arg("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16"),
         _arg("--host-size", type=_positive, default=8, metavar="N", help="cards of a server"),
         _arg("--keep", type=_positive, default=10, metavar="N", help="layouts to show"),
         _arg("--out", type=Path, metavar="DIR", help="write the run's files for the best layout: YAML, start, dry "
              "run, environment, our model's script, check-list"),
         _arg("--overwrite", **_FLAG, help="replace DIR"),
         _arg("--weights", type=Path, metavar="DIR", help="what `convert --to mindformers-…` wrote, for the YAML"),
         _arg("--hosts", type=_positive, metavar="N", help="servers; default: as many as the cards fill"),
         _arg("--set", action="append", default=[], metavar="NAME=X",
              help="another value of a constant: peak=313e12"), _ALLOW, _PADDED),
    ),
    "launch": Command(
        calls.launch,
        "run a script in several processes that compute together, with MindSpore's msrun, and end all of them",
        "mindport launch --workers 2 --timeout 600 train.py --steps 20",
        (_arg("--workers", type=_positive, required=True, metavar="N", help="processes"),
         _arg("--dp", type=_positive, metavar="N",
              help="data-parallel degree of its layout; dp · tp = workers is checked before the start"),
         _arg("--tp", type=_positive, metavar="N", help="tensor-parallel degree, the same"),
         _arg("--preflight", **_FLAG, help="look only, and do not start"),
         _arg("--log-dir", type=Path, metavar="DIR", help="default: runs/launch; a numbered folder where it is taken"),
         _arg("--timeout", type=_seconds, metavar="S", help="seconds for the whole; default: no limit"),
         _arg("--join-timeout", type=_seconds, default=600.0, metavar="S",
              help="seconds until each rank has called init(); default: 600"),
         _arg("--grace", type=_seconds, default=5.0, metavar="S",
              help="seconds that ranks have to end by themselves, after SIGTERM, when this is interrupted"),
         _arg("--env", type=_variable, action="append", default=[], metavar="NAME=VALUE",
              help="a variable of the processes' environment"),
         _arg("script", metavar="SCRIPT", help="a Python file; it calls init() itself"),
         _arg("arguments", nargs=argparse.REMAINDER, metavar="…", help="its words")),
    ),
    "reshard": Command(
        calls.reshard,
        "write a checkpoint in another layout, without devices: rank folders and strategy files, or one again",
        "mindport reshard models/llama-ms shards --to dp2,tp2,pp2,zero1",
        (_arg("source", type=Path, metavar="SRC", help="a MindPort directory, a training's checkpoint step-…, or "
              "folders rank_0 … of `mindport reshard` or of a training with MindSpore or MindSpore Transformers"),
         _arg("target", type=Path, metavar="DST"),
         _arg("--from", dest="before", metavar="LAYOUT", help="of SRC; a directory of ours says it itself"),
         _arg("--to", required=True, metavar="LAYOUT", help="dp2,tp2,pp2,zero1; dp1: a MindPort directory again. zero1 "
              "cuts the optimizer's means, zero3 weights too, as MindSpore's enable_parallel_optimizer does"),
         _arg("--model", metavar="DIR", help="its config.json, for rank folders of a training"),
         _arg("--vocabulary", choices=("whole", "split"), help="under tensor parallelism; default: what the network "
              "does, so whole for legacy ones of MindSpore Transformers (vocab_emb_dp)"),
         _arg("--weights-only", **_FLAG, help="leave a training's state behind; default: it goes along"),
         _arg("--threshold", type=int, default=64, metavar="KB", help="for zero: what is smaller stays whole"),
         _arg("--format", choices=("safetensors", "ckpt"), default="safetensors"),
         _arg("--overwrite", **_FLAG, help="replace DST")),
    ),
    "run": Command(
        calls.run,
        "run the notebooks and leave the report", "mindport run --model models/llama --size full --only 02,03",
        (_arg("--model", metavar="DIR", help=_MODEL_HELP),
         _arg("--size", choices=("smoke", "small", "full"), default="small"),
         _arg("--only", metavar="STEPS", help="two-digit steps, separated by commas"),
         _arg("--out", type=Path, metavar="DIR", help="default: runs/<model> in the repository"), _ALLOW),
    ),
}  # fmt: skip
