"""docs/mindformers.md, out of the answers of the peer."""

from __future__ import annotations

from typing import Any

HEAD = """# MindSpore Transformers

<!-- written by `make peer`; edit .ci/peer/page.py -->

`mindport convert --to mindformers-llama | mindformers-llama-concat | mindformers-mcore | mindformers-gpt2` writes
weights under the names and in the order of rows of MindSpore Transformers (package `mindformers`); `--to huggingface`
and `--to mindspore` lead back. `mindport export DIR --layout dp1,tp2,pp1 --yaml OUT` writes the YAML beside them.

`make peer` holds both to the package itself, in an environment of its own: its loader reads each YAML, its network is
built on the CPU, names and shapes are compared both ways, the weights are loaded, and what can be computed on a CPU is
compared. This is its last result, with {versions}.
"""
TAIL = """
- *logits*: largest absolute difference from transformers' own class, float32, two sequences of 96 tokens; limit 1e-5.
  The legacy network runs on a CPU with `use_flash_attention: False`, `fused_rms_norm: False`, `use_rope_slice: True`.
- *fused*: tensors of linear_qkv (biases too) and linear_fc1 that equal what the peer's own converter makes of the same
  Hugging Face weights. An mcore network can be built on a CPU, but not run; the attempt ends in `{forward}`.
- *control*: a fault that must be seen: gate and up of one layer exchanged, which no shape shows; the padding token at
  its default; a YAML with a key that does not exist, or without the offset that uneven stages need, which the peer must
  refuse.
- *layouts*: the peer's own arithmetic of the batch, its stage of each layer and its list of what is recomputed, from
  the YAML alone; no process is started, and what the strategies come to on cards is not verified.
- *gpt2 names*: against the converter of {gpt2}, read and not run: it is of another MindSpore's time.
- *PyNative schema*: the strict loader, out of the source of {pynative}; the package itself needs one that the registry
  does not have.

What no release from 1.9 on has: a network that trains Qwen2 with mcore (its class is for inference, and reads the
Hugging Face directory itself) and GPT-2: `mindport export` refuses both. Linear RoPE scaling is there, but its check
refuses every number: `mindport convert` refuses such a model. A legacy network masks the padding token wherever it
stands, and its default is token 0: where config.json names none, the YAML says -1.
"""


def page(result: dict[str, Any], pynative: str, gpt2: str) -> str:
    """The page, as Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    rows = ["| case | tensors | network | names and shapes | not loaded | logits | fused | state |",
            "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    rows += [_row(name, answer) for name, answer in result["cases"].items()]
    forward = next(a["forward on this CPU"] for a in result["cases"].values() if "forward on this CPU" in a)
    tail = TAIL.format(forward=forward, gpt2=gpt2.replace("==", " "), pynative=pynative.replace("==", " "))
    return HEAD.format(versions=versions) + "\n" + "\n".join(rows) + "\n" + tail


def _row(name: str, answer: dict[str, Any]) -> str:
    differences = [len(answer[k]) for k in ("only ours", "only theirs", "of another shape") if k in answer]
    error = answer.get("max abs error of logits")
    fused = answer.get("fused tensors equal to the peer's converter")
    cells = (
        name, answer.get("tensors", "–"), answer.get("parameters of the network", "–"),
        f"{sum(differences)} differ" if differences else "–",
        sum(map(len, answer["not loaded"])) if "not loaded" in answer else "–",
        "–" if error is None else f"{error:.1e}",
        "–" if fused is None else f"{fused} equal, {len(answer['different'])} differ", _state(answer),
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _state(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return f"failed: `{answer['error']}`"
    if answer.get("control"):
        return "differs, as it must" if answer["ok"] else "NOT SEEN"
    if "refused" in answer:
        return f"refused, as it must: `{answer['refused']}`"
    if "layout" in answer and answer["ok"]:
        return "agrees: {} samples a step, {} stage(s)".format(
            answer["layout"]["samples of a step"], len(set(answer["layout"]["stages"]))
        )
    if "sections" in answer:
        return f"read: {answer['sections']} sections"
    return "agrees" if answer["ok"] else "DIFFERS"
