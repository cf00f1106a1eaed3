"""The real thing: the transformers class of a Hugging Face directory, looked at from inside and written as a trace.

This is the only module that imports transformers. It runs as a process of its own:

    python -m mindport.parity.reference --model DIR --out TRACE [--layers N]

Attention is "eager", dropout is off, files are local, code that a model brings is never executed.
"""

from __future__ import annotations

import argparse
import copy
import platform
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from mindport.config import ModelConfig, dialect_for, read_config, to_dict
from mindport.config.dialect import Dialect
from mindport.errors import BackendError, MappingError, MindPortError, first_line, some
from mindport.parity import rotation
from mindport.parity.float64 import Float64
from mindport.parity.gradients import to_hub
from mindport.parity.identity import cut, identity
from mindport.parity.inputs import SEED, cotangent, greedy_lengths, has_tokenizer, is_dynamic, random_ids, text_ids
from mindport.parity.launch import FAILED
from mindport.parity.metrics import next_token_loss
from mindport.parity.taps import LOGITS, Tap, is_residual, taps
from mindport.parity.trace import Trace, write_trace
from mindport.weights.digests import expected_digests
from mindport.weights.plan import unwrapped
from mindport.weights.readers import open_hf

DIFFERENT = 8  # token ids, at least, in an input that shows something
Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class Recording:
    """What hooks saw: values by path in the order in which they were made, and how each module was called."""

    values: dict[str, torch.Tensor] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)


def record(
    directory: Path, out: Path, *, layers: int | None = None, overwrite: bool = False, allow: Sequence[str] = (),
    padded_vocab: int | None = None,
) -> Path:  # fmt: skip
    """Run the reference and write its trace.

    Args:
        directory: a Hugging Face directory.
        out: the trace to write.
        layers: keep the first so many layers.
        overwrite: replace a trace that is there.
        allow: unknown keys of config.json that the user knows to be harmless.
        padded_vocab: rows of the embedding, where those beyond vocab_size are padding.
    """
    settle()
    report = read_config(directory, allow, padded_vocab)
    config, dialect = cut(report.model, layers), report.dialect
    model = load(directory, dialect, config)
    rotary = copy.deepcopy(_rotary(model))  # asked for long sequences, dynamic scaling stays long
    ids, made_from = tokens(directory, config)
    trace = Trace(describe(directory, config, made_from))
    trace.add("ids", ids)
    trace.add("greedy", _greedy(model, config, torch.from_numpy(ids)))
    _observe(trace, model, config, dialect, torch.from_numpy(ids))
    digests = expected_digests(directory, allow=allow, padded_vocab=padded_vocab)
    trace.about |= {"whole": to_dict(report.model), "tensors": digests}
    for length in rotation.lengths(report.model):
        trace.add(rotation.name(length), _angles(rotary, length))
    return write_trace(trace, out, overwrite=overwrite)


def settle() -> None:
    """One seed, and no word of transformers on stderr."""
    torch.manual_seed(SEED)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def load(directory: Path, dialect: Dialect, config: ModelConfig, attention: str = "eager") -> Any:
    """The family's class in float32, with the weights of the directory and the first layers of it.

    Args:
        directory: a Hugging Face directory.
        dialect, config: what it holds.
        attention: eager, whose values can be looked at, or sdpa, which is fast.

    Raises:
        MappingError: weights are missing or of another shape.
    """
    kind = getattr(transformers, dialect.architecture)
    settings = kind.config_class.from_pretrained(directory, local_files_only=True)
    settings.num_hidden_layers, settings.vocab_size = config.num_hidden_layers, config.vocab_rows
    if getattr(settings, "layer_types", None) is not None:
        settings.layer_types = settings.layer_types[: config.num_hidden_layers]
    weights = _unwrapped(directory, dialect, config)
    model, found = kind.from_pretrained(
        None if weights else directory,
        config=settings,
        state_dict=weights or None,
        dtype=torch.float32,
        attn_implementation=attention,
        local_files_only=True,
        output_loading_info=True,
    )
    if bad := [*found["missing_keys"], *found["mismatched_keys"]]:
        raise MappingError("the reference finds no weights for its parameters", where=directory, got=some(bad))
    return model.eval()


def _unwrapped(directory: Path, dialect: Dialect, config: ModelConfig) -> dict[str, torch.Tensor]:
    """The weights by the class's names, which `from_pretrained` would not find behind a wrapper's prefix; empty
    where there is none, and it reads the files itself."""
    reader = open_hf(directory)
    names = unwrapped(dialect, config, reader.infos)
    return {plain: torch.from_numpy(reader.read(name).astype(np.float32)) for plain, name in names.items()}


def _rotary(model: Any) -> Any:
    """The module that makes cos and sin, None in a family without."""
    return next((module for name, module in model.named_modules() if name.endswith("rotary_emb")), None)


def _angles(rotary: Any, length: int) -> np.ndarray:
    """(2, D/2) cos and sin of one step, in a sequence of `length` tokens."""
    with torch.no_grad():
        angles = rotary(torch.zeros(1, 2, 1), torch.from_numpy(rotation.positions(length)))
    return np.stack([x[0, 0, : x.shape[-1] // 2].numpy() for x in angles])


def tokens(directory: Path, config: ModelConfig) -> tuple[np.ndarray, str]:
    """The ids to feed, and where they come from."""
    ids, why = encoded(directory, config, lambda encode: text_ids(encode, config))
    return (random_ids(config), f"random ids, seed {SEED}: {why}") if ids is None else (ids, "two texts")


def encoded(
    directory: Path, config: ModelConfig, make: Callable[[Callable[[str], list[int]]], np.ndarray]
) -> tuple[np.ndarray | None, str]:
    """What `make` gets out of the model's tokenizer; or None, and why there is no use in it: a text of unknown tokens
    only would show next to nothing."""
    if not has_tokenizer(directory):
        return None, "the model has no tokenizer"
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    ids = make(lambda text: tokenizer(text, add_special_tokens=False)["input_ids"])
    if (different := len(np.unique(ids))) < min(DIFFERENT, config.vocab_size):
        return None, f"its tokenizer makes only {different} different tokens of the text"
    return ids, ""


def _observe(trace: Trace, model: Any, config: ModelConfig, dialect: Dialect, ids: torch.Tensor) -> None:
    """All values in float32; then, with the weights widened in place, what they would be exactly."""
    watched, layer = taps(config, dialect), config.num_hidden_layers // 2
    seen = _forward(model, watched, ids)
    block = model.get_submodule(watched[f"blocks.{layer}"].module)
    call = seen.calls[watched[f"blocks.{layer}"].module]
    gradients = to_hub(_gradients(block, call), config, dialect, layer)
    check_finite({**{path: value.numpy() for path, value in seen.values.items()}, **gradients})
    widen(model)
    with Float64():
        exact = _each_again(model, watched, seen.calls)
        far = _forward(model, {path: tap for path, tap in watched.items() if is_residual(path)}, ids)
        exact_gradients = to_hub(_gradients(block, _double(call)), config, dialect, layer)
    for path, value in seen.values.items():
        if watched[path].seen_at is None:
            trace.add(f"in/{path}", _argument(seen.calls[watched[path].module]).numpy())
        trace.add(f"out/{path}", value.numpy(), exact[path].numpy())
    for path, value in far.values.items():
        trace.add(f"far/{path}", seen.values[path].numpy(), value.numpy())
    for name, value in gradients.items():
        trace.add(f"grad/{name}", value, exact_gradients[name])
    trace.about |= {
        "order": list(seen.values),
        "layer": layer,
        "loss": next_token_loss(seen.values[LOGITS].numpy(), ids.numpy()),
    }


def widen(model: Any) -> None:
    """float64 weights; GPT-2's own upcast, which insists on float32, has nothing left to do."""
    model.double()
    for module in model.modules():
        if getattr(module, "reorder_and_upcast_attn", False):
            module.reorder_and_upcast_attn = False


def check_finite(values: Mapping[str, np.ndarray]) -> None:
    """Beside NaN everything is right: a limit that follows the reference's own error would let all pass.

    Raises:
        BackendError: a value of the reference is not finite; the first one is named.
    """
    if odd := [name for name, value in values.items() if not np.isfinite(value).all()]:
        raise BackendError("the reference itself computes NaN or infinities: there is nothing to compare with",
                           where=odd[0], got=f"{len(odd)} of {len(values)} values are not finite in float32",
                           do="mend the weights: `mindport convert` names those that are not finite")  # fmt: skip


def _forward(model: Any, watched: Mapping[str, Tap], ids: torch.Tensor) -> Recording:
    """The whole model, watched."""
    with torch.no_grad(), _watch(model, watched.values()) as seen:
        model(ids, use_cache=False)
    return seen


def _each_again(model: Any, watched: Mapping[str, Tap], calls: Mapping[str, Call]) -> dict[str, torch.Tensor]:
    """Each module by itself in float64, on what it was given in float32."""
    values: dict[str, torch.Tensor] = {}
    for name, (args, kwargs) in calls.items():
        own = [tap for tap in watched.values() if tap.module == name]
        with torch.no_grad(), _watch(model, own) as seen:
            args, kwargs = _double((args, kwargs))
            model.get_submodule(name)(*args, **kwargs)
        values |= seen.values
    return values


@contextmanager
def _watch(model: Any, watched: Iterable[Tap]) -> Iterator[Recording]:
    """Hooks on the modules of the taps, for the time of the block."""
    seen, handles = Recording(), []
    for tap in watched:
        module = model.get_submodule(tap.seen_at[1] if tap.seen_at else tap.module)
        hook = _hook(seen, tap)
        handles.append(module.register_forward_hook(hook, with_kwargs=True, prepend=tap.seen_at is not None))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _hook(seen: Recording, tap: Tap) -> Any:
    def keep(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if tap.seen_at:
            seen.values[tap.path] = _argument((args, kwargs)).detach()
            return
        value = output[0] if isinstance(output, tuple) else output
        seen.values[tap.path] = value[..., list(tap.columns)] if tap.columns else value
        seen.calls[tap.module] = (args, kwargs)

    return keep


def _gradients(block: Any, call: Call) -> dict[str, np.ndarray]:
    """d(output · cotangent) / d(input and every parameter) of one layer, by the layer's own names."""
    args, kwargs = call
    x = args[0].detach().clone().requires_grad_()
    output = block(x, *args[1:], **kwargs)
    output = output[0] if isinstance(output, tuple) else output
    sent = torch.from_numpy(cotangent(tuple(output.shape))).to(output.dtype)
    names, parameters = zip(*block.named_parameters(), strict=True)
    found = torch.autograd.grad((output * sent).sum(), (x, *parameters))
    return {name: value.numpy() for name, value in zip(("input", *names), found, strict=True)}


def _greedy(model: Any, config: ModelConfig, ids: torch.Tensor) -> np.ndarray:
    """(2, n) the tokens with which the model itself goes on after the start of each row.

    A key/value cache keeps what dynamic RoPE has already rotated by older frequencies, so it is left out there.
    """
    prompt, new = greedy_lengths(config, ids.shape[1])
    settings = transformers.GenerationConfig(
        max_new_tokens=new, do_sample=False, use_cache=not is_dynamic(config), eos_token_id=None, pad_token_id=0
    )
    model.generation_config = settings  # `generate` fills what is unset from here: an end of text, a penalty
    start = ids[:, :prompt]
    written = model.generate(start, attention_mask=torch.ones_like(start), generation_config=settings)
    return written[:, prompt:].numpy()


def _argument(call: Call) -> torch.Tensor:
    """The tensor that a module was called with, by place or by name."""
    args, kwargs = call
    return args[0] if args else kwargs["hidden_states"]


def _double(value: Any) -> Any:
    """float64 for every float in nested arguments."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _double(item) for key, item in value.items()}
    return tuple(map(_double, value)) if isinstance(value, tuple) else value


def describe(directory: Path, config: ModelConfig, made_from: str) -> dict[str, Any]:
    """What the manifest of every trace of the reference says."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions |= {"transformers": transformers.__version__, "numpy": np.__version__}
    return {
        "made_by": f"{dialect_for(config.model_type).architecture}, eager attention, float32 beside float64",
        "versions": versions,
        "seed": SEED,
        "tokens": made_from,
        "model": to_dict(config),
        "source": identity(directory),
    }


def main(argv: list[str] | None = None) -> int:
    """The command line of the process."""
    return answer(parser("mindport.parity.reference", __doc__), record, argv)


def parser(module: str, says: str, traces: bool = True) -> argparse.ArgumentParser:
    """What every process of the reference is told; those that leave a trace, which layers are in it besides."""
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=says.splitlines()[0])
    made.add_argument("--model", dest="directory", type=Path, required=True, help="a Hugging Face directory")
    made.add_argument("--out", type=Path, required=True, help="what to write: a trace is a directory")
    if traces:
        made.add_argument("--layers", type=int, help="keep the first N layers")
        made.add_argument("--overwrite", action="store_true", help="replace a trace that is there")
    made.add_argument("--allow", action="append", default=[], metavar="KEY", help="an unknown key to let pass")
    made.add_argument("--padded-vocab", type=int, metavar="N", help="rows of the embedding, where it is padded")
    return made


def answer(told: argparse.ArgumentParser, make: Callable[..., Path], argv: list[str] | None) -> int:
    """Call `make` with what the process was told; what fails ends it with one line that says why."""
    given = vars(told.parse_args(argv))
    try:
        print(make(**given))
    except Exception as error:  # transformers and torch raise whatever they met
        if not isinstance(error, MindPortError):
            traceback.print_exc()
        print(FAILED + _one_line(error), file=sys.stderr, flush=True)
        return 2
    return 0


def _one_line(error: Exception) -> str:
    """Kind and message; of a foreign error's essay, its beginning."""
    lines = (line.strip() for line in str(error).splitlines())
    said = "; ".join(lines) if isinstance(error, MindPortError) else first_line(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
