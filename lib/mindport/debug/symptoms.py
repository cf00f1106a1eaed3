"""Sign → likely cause → the evidence that decides → the next action: a table to look things up in.

Most rows are from public reports of people who did this migration; `seen_in` says where one can read about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mindport.errors import UsageError
from mindport.results import Result
from mindport.tables import Table


@dataclass(frozen=True)
class Symptom:
    """One row.

    Attributes:
        sign: what you see.
        cause: what is most often behind it.
        evidence: what to look at, so that it need not be believed.
        do: the next action.
        where: the notebook ("03") or the command ("mindport verify DIR") that does it.
        seen_in: a public report, or "" where it was met here.
    """

    sign: str
    cause: str
    evidence: str
    do: str
    where: str
    seen_in: str = ""


SYMPTOMS = (
    # the forward pass
    Symptom("the first loss is about ln V", "nothing, or too little, was loaded",
            "the accounts: tensors matched of the total, and the first names left over",
            "convert again, and read what was not consumed", "mindport convert SRC DST", "pytorch/torchtitan PR3772"),
    Symptom("right at position 0, wrong from there on, a little more at each", "rotary positions: theta, scaling or "
            "layout", "the first four inverse frequencies of both sides", "compare them; look at the error by position",
            "03", "meta-pytorch/torchtune PR2669"),
    Symptom("the first tokens are right, gibberish after about twenty", "rotary layout: interleaved against halves",
            "q after the rotation, both ways", "give the layout by name when converting", "02",
            "karpathy/llama2.c PR286"),
    Symptom("gibberish at once, only in models with fewer key/value heads", "k was permuted with the number of query "
            "heads", "k of layer 0 against the reference", "permute k with num_key_value_heads", "02",
            "ggml-org/llama.cpp#2376"),
    Symptom("another language or broken characters, while LLaMA is fine", "the biases of q, k and v were dropped",
            "the list of tensors that nothing consumed", "convert with closed accounts", "mindport convert SRC DST",
            "sbryngelson/ANEForge PR253"),
    Symptom("layer 0 is exact, later layers are off by a growing factor", "scores are not divided by the layer's index",
            "scale_attn_by_inverse_layer_idx in config.json", "map the key; test a layer other than the first", "01",
            "huggingface/transformers#44380"),
    Symptom("the first divergence is at a norm", "another epsilon, or a weight that is stored around zero",
            "the norm on inputs with a deviation of 1e-3", "read eps from the config", "03",
            "ml-explore/mlx-lm PR1623"),
    Symptom("a small error everywhere after the activation", "the other form of GELU",
            "mlp.hidden on the reference's own input", "map the activation by its exact name", "03",
            "karpathy/nanoGPT#2"),
    Symptom("fine when short, wrong when long", "rotary scaling or the window was read, and never applied",
            "the error at lengths below and above the original context", "sweep the length", "mindport verify DIR",
            "huggingface/transformers#35896"),
    Symptom("float32 differs from the reference by 1e-7 to 1e-6", "rounding, which is no fault",
            "our distance from float64 over PyTorch's own", "nothing; read the ratio", "03", "mindspore#353"),
    # training
    Symptom("forward and first loss agree, the loss of step 2 does not", "the optimizer, or the learning rate's step",
            "one step: weight, m and v", "compare one step before you compare curves", "04",
            "ml-explore/mlx PR1640"),
    Symptom("the learning-rate curve is shifted by one step", "the schedule is advanced before, not after, the step",
            "the rates of steps 0 to 3", "print them; a warm-up from 0 moves nothing in its first step", "04"),
    Symptom("the gradient of a parameter is zero throughout", "it is detached, or an operator has no gradient",
            "a finite difference of the loss in that parameter", "look for stop_gradient, .asnumpy() and integer casts",
            "04"),
    Symptom("the loss does not fall", "a learning rate that is 0 or far too small, or labels that are not the next "
            "token", "the rate that was used, and the ids beside the labels of one row",
            "overfit one batch in ten steps first", "04"),
    Symptom("the loss falls faster than it can", "the model sees the future: no causal mask, or labels not shifted",
            "change the last token, and see whether earlier logits move", "mask the future", "04"),
    Symptom("the first loss is far above ln V", "initial weights too large, or a wrong scale before the softmax",
            "the deviation of the logits: about 1 is sound", "start from initializer_range", "04"),
    Symptom("the loss explodes after some steps", "the learning rate, or gradients that are not clipped",
            "the norm of the gradients before clipping, step by step", "warm up; clip to 1", "04"),
    Symptom("it learns in float32, and not in half precision", "an epsilon of 1e-8 is 0 in float16, or gradients "
            "underflow", "the same ten steps in float32 only", "keep weights, norms, softmax and loss in float32",
            "04"),
    # not finite
    Symptom("NaN only with a padded batch", "a row of scores in which everything is hidden",
            "the same batch without padding", "find the row; fill with the lowest finite number", "04",
            "pytorch/pytorch#103749"),
    Symptom("NaN without padding, in low precision", "a value beyond the range of the type",
            "the first module whose inputs are finite and whose output is not", "find it; compute that in float32",
            "04"),
    Symptom("NaN in the gradients, while the loss is finite", "a slope that is infinite where the value is not: a root "
            "or a norm at 0", "the first gradient in backward order", "find it; add an epsilon below the root", "04"),
    Symptom("the loss scale halves at every step", "the gradient is infinite whatever the scale: not a matter of scale",
            "the history of scales and skipped steps", "run one step in float32 and find the value", "04",
            "deepspeedai/DeepSpeed#697"),
    Symptom("no NaN here, NaN on another device", "a softmax over a hidden row: some kernels answer zeros",
            "scores with rows of nothing but −inf", "find the row; do not rely on the zeros", "04"),
    Symptom("results change from run to run, with padding, on a CPU", "a softmax over a hidden row leaves the rows "
            "after it unwritten", "debug.leftovers(), which takes the same softmax many times",
            "fill with the lowest finite number instead of −inf", "04"),
    # PyNative and Graph
    Symptom("step times are spiky in Graph mode", "a new graph for each new shape or Python number",
            "the number of compilations", "pad into a few buckets; hand numbers in as tensors", "07",
            "https://discuss.mindspore.cn/t/topic/286"),
    Symptom("right in PyNative, TypeError or ValueError in Graph",
            "Python that the compiler does not know, or a method with another meaning",
            "the line that the message names", "run the cell in both modes", "04"),
    Symptom("right in PyNative, silently different in Graph", "an attribute, a list or a global that was frozen when "
            "the graph was compiled", "the same call twice, with the attribute changed in between",
            "hand it in as an input, or hold it in a Parameter", "04"),
    Symptom("an error on a line that is innocent", "PyNative runs ahead; the fault is an earlier operator",
            "the same with ms.runtime.launch_blocking()", "block, or read a value after each suspect", "04"),
    Symptom("an operator's kernel is unregistered", "the device has no kernel for an operator that exists",
            "one call of it, with .asnumpy()", "take the plain operators", "mindport doctor"),
    # loading, shapes
    Symptom("a parameter's name is not found", "a prefix, or another family's names",
            "the names of the checkpoint beside those that are wanted", "read the family's table", "02"),
    Symptom("shapes of a weight and a parameter differ",
            "head_dim, key/value heads or a padded vocabulary were guessed",
            "both shapes, and the keys of config.json that make them", "read them, never derive them", "01",
            "huggingface/candle#2358"),
    Symptom("an error about shapes in a matrix product", "transpose takes all axes in MindSpore, two in PyTorch",
            "the shape after each line", "step through the cell", "04"),
    Symptom("SystemError in the first operations of a process", "NumPy 2 under a MindSpore that was built for NumPy 1",
            "the doctor's probe", "pip install 'numpy<2'", "00"),
    Symptom("an import fails, or crashes, depending on its order", "two OpenMP libraries in one process",
            "both orders, each in a process of its own", "keep the frameworks in two processes", "mindport doctor",
            "pytorch/pytorch#2575"),
    # several devices
    Symptom("the device does not initialise", "another process holds its memory, often your own kernel of yesterday",
            "who holds what", "shut that kernel down", "mindport doctor", "mindspore-lab/mindyolo#236"),
)  # fmt: skip


@dataclass(frozen=True)
class Advice(Result):
    """The rows that fit what was asked, best first."""

    asked: str
    found: tuple[Symptom, ...]

    @property
    def ok(self) -> bool:
        return bool(self.found)

    def headline(self) -> str:
        return f"{self.found[0].cause}. Look at: {self.found[0].evidence}. Then: {self.found[0].do}"

    def tables(self) -> tuple[Table, ...]:
        return (table(self.found, f"“{self.asked}”"),)


def signs() -> tuple[str, ...]:
    """What can be looked up word for word."""
    return tuple(row.sign for row in SYMPTOMS)


def symptom_table() -> Table:
    """All of it."""
    return table(SYMPTOMS, "sign → cause → evidence → next action")


def look_up(asked: str, limit: int = 3) -> Advice:
    """The rows whose sign, cause or evidence has most of the words, each word weighed by how rare it is.

    Args:
        asked: a sign of the table, or your own words: "nan with padding".
        limit: at most so many rows.

    Raises:
        UsageError: no row has any of the words.
    """
    if exact := [row for row in SYMPTOMS if row.sign == asked]:
        return Advice(asked, tuple(exact))
    wanted = _words(asked)
    scored = sorted(((_score(row, wanted), -index) for index, row in enumerate(SYMPTOMS)), reverse=True)
    found = tuple(SYMPTOMS[-index] for score, index in scored[:limit] if score > 0)
    if not found:
        raise UsageError("there is no row for this sign", got=asked, expected="words such as NaN, padding, step, shape",
                         do="read the whole table: debug.symptom_table()")  # fmt: skip
    return Advice(asked, found)


def table(rows: tuple[Symptom, ...], title: str) -> Table:
    cells = [(row.sign, row.cause, row.evidence, row.do, row.where) for row in rows]
    return Table(title, ("sign", "likely cause", "evidence", "next action", "where"), cells)


def _score(row: Symptom, wanted: set[str]) -> float:
    """A word of the sign counts twice."""
    sign, rest = _words(row.sign), _words(f"{row.cause} {row.evidence}")
    return sum((2 * (word in sign) + (word in rest)) * _rarity(word) for word in wanted)


def _rarity(word: str) -> float:
    return 1 / max(1, sum(word in _words(f"{row.sign} {row.cause} {row.evidence}") for row in SYMPTOMS))


def _words(text: str) -> set[str]:
    """Words of three letters and more, without a plural's s."""
    return {word.removesuffix("s") for word in re.findall(r"[a-z0-9_]{3,}", text.lower())}
