"""What each command calls. The functions import what they need, so that `doctor` runs where nothing is installed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from mindport.errors import UsageError
from mindport.files import check_writable, write_json
from mindport.results import Result, plain


def doctor(options: argparse.Namespace) -> Result:
    from mindport.environment.doctor import diagnose_environment

    return diagnose_environment(probes=not options.quick)


def fetch(options: argparse.Namespace) -> Result:
    from mindport import sources

    return sources.fetch(options.name, to=options.to)


def config(options: argparse.Namespace) -> Result:
    from mindport.config.read import inspect_config

    return inspect_config(model_path(options.path), allow=tuple(options.allow), padded_vocab=options.padded_vocab)


def convert(options: argparse.Namespace) -> Result:
    from mindport import weights

    return weights.convert(
        model_path(options.source), options.target, to=options.to, dtype=options.dtype, file_format=options.format,
        overwrite=options.overwrite, allow=tuple(options.allow), padded_vocab=options.padded_vocab,
    )  # fmt: skip


def export(options: argparse.Namespace) -> Result:
    from mindport import mindformers

    data = {} if options.data is None else {"data": options.data}
    recipe = mindformers.Recipe(seq_length=options.seq_length, **data)
    layout = options.layout + (",recompute-full" if options.recompute else "")
    return mindformers.export(options.directory, options.yaml, layout, options.schema, recipe)


def verify(options: argparse.Namespace) -> Result:
    from mindport import debug

    return debug.verify(
        model_path(options.directory), converted=options.converted, trace=options.trace, layers=options.layers,
        allow=tuple(options.allow), padded_vocab=options.padded_vocab, steps=options.steps,
    )  # fmt: skip


def trace(options: argparse.Namespace) -> Result:
    from mindport import tracing

    what = options.what if tracing.is_function(options.what) else model_path(options.what)
    return tracing.trace(what, **{k: v for k, v in vars(options).items() if k not in ("what", "command", "json")})


def compare(options: argparse.Namespace) -> Result:
    from mindport import tracing

    rules = tracing.read_rules(options.map)
    return tracing.compare_traces(options.a, options.b, rules, limit=options.limit, padding=options.padding)


def faultlab(options: argparse.Namespace) -> Result:
    from mindport import debug

    return debug.fault_lab(only=options.only, progress=True)


def run(options: argparse.Namespace) -> Result:
    from mindport import run as runner

    return runner.run(options.model, size=options.size, only=options.only, out=options.out, allow=tuple(options.allow))


def train(options: argparse.Namespace) -> Result:
    from mindport.training.example import example

    if options.example:
        return example(options.example)
    config = _training(options)
    if options.beside_torch:
        return _beside_torch(config, options)
    from mindport.parallel.train import train as run_training

    return run_training(config, resume=options.resume, overwrite=options.overwrite)


def layouts(options: argparse.Namespace) -> Result:
    from mindport.parallel.layouts import compare_layouts
    from mindport.training.parts import say_aloud

    config = _training(options)
    return compare_layouts(config, options.layouts, f"{config.out}-layouts", say=say_aloud)


def prepare(options: argparse.Namespace) -> Result:
    from mindport.training.text import prepare_text

    return prepare_text(_training(options))


def gather(options: argparse.Namespace) -> Result:
    from mindport.training.checkpoint import gather

    return gather(options.source, options.target, overwrite=options.overwrite)


def bench(options: argparse.Namespace) -> Result:
    from mindport import tuning

    if isinstance(options.json, Path):
        check_writable(options.json)  # minutes before the answer is there
    result = tuning.bench(options.name, quick=options.quick)
    if isinstance(options.json, Path):
        write_json(options.json, plain(result.as_dict()))
    return result


def claims(options: argparse.Namespace) -> Result:
    from mindport import claims as ledger

    return ledger.run(options.only, options.topic)


def coverage(options: argparse.Namespace) -> Result:
    from mindport import coverage as operators

    if options.list == (options.target is not None):
        raise UsageError(
            "name a target, or ask for the table", do="mindport coverage PATH, or mindport coverage --list"
        )
    return operators.operator_table() if options.list else operators.cover(options.target, timeout=options.timeout)


def plan(options: argparse.Namespace) -> Result:
    from mindport.parallel import plan as planner

    if options.validate == (options.path is not None):
        raise UsageError("name a model, or ask for the validation", do="mindport plan PATH, or plan --validate")
    if options.validate and options.out is not None:
        raise UsageError("the validation has no layout to write files for", got="--validate and --out",
                         do="leave one of them out")  # fmt: skip
    if options.out is None and (options.weights is not None or options.overwrite):
        raise UsageError("--weights and --overwrite are for the files of --out", do="add --out DIR")
    if options.validate:
        return planner.validate()
    from mindport.mindformers import parse_layout

    layout = None if options.layout is None else parse_layout(options.layout)
    found = planner.plan(_job(options, layout), options.keep, layout)
    if options.out is None or found.best is None:
        return found
    from mindport.parallel.route import write_route

    return write_route(found, options.out, options.weights, options.hosts, options.overwrite)


def launch(options: argparse.Namespace) -> Result:
    from mindport.parallel.launch import launch as run_job
    from mindport.parallel.launch.preflight import preflight

    before = preflight(options.workers, dp=options.dp, tp=options.tp)
    if options.preflight:
        return before
    before.require()
    return run_job(options.script, options.arguments, workers=options.workers, log_dir=options.log_dir,
                   timeout=options.timeout, join_timeout=options.join_timeout, grace=options.grace,
                   environ=dict(options.env))  # fmt: skip


def reshard(options: argparse.Namespace) -> Result:
    from mindport.parallel.reshard import reshard as run_reshard

    return run_reshard(
        options.source, options.target, options.to, options.before, model=options.model and model_path(options.model),
        vocabulary=options.vocabulary, weights_only=options.weights_only, threshold=options.threshold,
        file_format=options.format, overwrite=options.overwrite,
    )  # fmt: skip


def model_path(name: str) -> Path:
    """The path of a model; a file, such as a config.json, is left to the command."""
    from mindport import sources

    path = Path(name)
    return path if path.is_file() else sources.resolve(name)


def _training(options: argparse.Namespace) -> Any:
    """The configuration that the command line names, with what it sets."""
    from mindport.training.config import read_config

    if options.config is None:
        raise UsageError("name a configuration, or ask for an example",
                         do="mindport train CONFIG, or mindport train --example tiny-gpt2")  # fmt: skip
    given = list(options.set)
    given += [] if options.out is None else [f"out={json.dumps(options.out, ensure_ascii=False)}"]
    given += [] if options.steps is None else [f"steps={options.steps}"]
    return read_config(options.config, given)


def _beside_torch(config: Any, options: argparse.Namespace) -> Result:
    if options.resume:
        raise UsageError("only a whole training can be done again in torch", got="--resume with --beside-torch",
                         do="leave one of them out")  # fmt: skip
    from mindport.parity.beside import beside_torch

    return beside_torch(config, overwrite=options.overwrite)


def _job(options: argparse.Namespace, layout: Any) -> Any:
    """What `plan` is asked about: the cards are those that were said, or those of the layout, or of the hosts."""
    from mindport.config import read_config
    from mindport.parallel import plan as planner

    model = read_config(model_path(options.path), tuple(options.allow), options.padded_vocab).model
    assert model is not None  # or it would have been refused
    device = planner.hardware(options.device).with_values(planner.parse_settings(options.set))
    hosts = (options.hosts or 0) * options.host_size
    return planner.Job(
        model, device, options.devices or (layout.devices if layout else hosts or 8),
        options.seq or min(4096, model.max_position_embeddings), options.global_batch, options.dtype,
        options.host_size, options.micro_batch,
    )  # fmt: skip
