"""The faults of the code, as MindSpore computes them: each is a block in which a class of the model is another one."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from mindport.debug.faults.fault import replaced
from mindport.model import gpt
from mindport.model.kernels import override
from mindport.model.kernels.selector import Kernel

Block = Callable[[], contextlib.AbstractContextManager[None]]


def _module(kernel: str) -> Any:
    """A kernel's file; the package has a function of the same name."""
    return importlib.import_module(f"mindport.model.kernels.{kernel}")


attention, layer_norm, rms_norm, rotary, gelu, swiglu, linear = map(
    _module, ("attention", "layer_norm", "rms_norm", "rotary", "gelu", "swiglu", "linear")
)
CAP, QUICK, LOWEST = 5.0, 1.702, float(np.finfo(np.float32).min)


class Weighing(attention.Reference):  # type: ignore[name-defined, misc]
    """Attention that says in one place what the keys weigh."""

    def construct(self, q: Tensor, k: Tensor, v: Tensor, offset: Any = None, lengths: Any = None) -> Tensor:
        t, s, share = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
        q, k, v = (self.swap(x, self.axes) for x in (q * self.scale, k, v))
        k, v = (x.repeat_interleave(share, 1) for x in (k, v))  # (B, H, S, D)
        weights = self.weigh(ops.matmul(q, k.swapaxes(2, 3)), self.hidden(t, s, offset))
        return self.swap(ops.matmul(weights, v), self.axes)

    def weigh(self, scores: Tensor, hidden: Tensor) -> Tensor:
        """Scores (B, H, T, S), which keys are hidden (T, S) → weights."""
        raise NotImplementedError

    def hide(self, scores: Tensor, hidden: Tensor, fill: float = LOWEST) -> Tensor:
        return ops.where(hidden, Tensor(fill, ms.float32), scores)


class Unmasked(Weighing):
    def weigh(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return self.softmax(scores)


class Reversed(Weighing):
    def weigh(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return self.softmax(self.hide(scores, hidden.swapaxes(0, 1)))


class FilledWithZero(Weighing):
    def weigh(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return self.softmax(self.hide(scores, hidden, fill=0.0))


class Late(Weighing):
    def hidden(self, t: int, s: int, offset: Any) -> Tensor:
        return super().hidden(t, s, s - t + 1)

    def weigh(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return self.softmax(self.hide(scores, hidden))


class MaskedAfter(Weighing):
    def weigh(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return ops.where(hidden, self.zero, self.softmax(scores))


class OverQueries(Weighing):
    def weigh(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return ops.softmax(self.hide(scores, hidden), axis=-2)


class Capped(Weighing):
    def weigh(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return self.softmax(self.hide(CAP * ops.tanh(scores / CAP), hidden))


class Tiled(attention.Reference):  # type: ignore[name-defined, misc]
    """Query head h reads key/value head h mod K: the right kernel, with its heads in another order."""

    def construct(self, q: Tensor, k: Tensor, v: Tensor, offset: Any = None, lengths: Any = None) -> Tensor:
        order = sorted(range(q.shape[2]), key=lambda head: (head % k.shape[2], head))
        back = Tensor(np.argsort(order), ms.int32)
        return super().construct(q.gather(Tensor(order, ms.int32), 2), k, v, offset, lengths).gather(back, 2)


class Unturned(Kernel):
    def __init__(self, **_: Any) -> None:
        super().__init__()

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return x


class Backwards(rotary.Reference):  # type: ignore[name-defined, misc]
    def construct(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return super().construct(x, cos, -sin)


class Neighbours(rotary.Reference):  # type: ignore[name-defined, misc]
    def construct(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        cos, sin, turned = cos.expand_dims(2), sin.expand_dims(2), x[..., : self.turned]
        left, right = turned[..., 0::2], turned[..., 1::2]
        pairs = ops.stack((left * cos - right * sin, right * cos + left * sin), -1).reshape(turned.shape)
        return self.concat((pairs, x[..., self.turned :])) if self.partly else pairs


class ByMeanSquare(Kernel):
    """RMS norm and a bias, called as a layer norm."""

    def __init__(self, *, eps: float, **_: Any) -> None:
        super().__init__()
        self.eps = eps

    def construct(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return x * ops.rsqrt((x * x).mean(-1, keep_dims=True) + self.eps) * weight + bias


class Centred(rms_norm.Reference):  # type: ignore[name-defined, misc]
    def construct(self, x: Tensor, weight: Tensor) -> Tensor:
        return super().construct(x - x.mean(-1, keep_dims=True), weight)


class Unbiased(ByMeanSquare):
    def construct(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x = x - x.mean(-1, keep_dims=True)
        return x * ops.rsqrt((x * x).sum(-1, keepdims=True) / (x.shape[-1] - 1) + self.eps) * weight + bias


class EpsOutside(ByMeanSquare):
    def construct(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x = x - x.mean(-1, keep_dims=True)
        return x / (ops.sqrt((x * x).mean(-1, keep_dims=True)) + self.eps) * weight + bias


class RmsEpsOutside(rms_norm.Reference):  # type: ignore[name-defined, misc]
    def construct(self, x: Tensor, weight: Tensor) -> Tensor:
        return x / (ops.sqrt((x * x).mean(-1, keep_dims=True)) + self.eps) * (weight + self.offset)


class Quick(Kernel):
    def __init__(self, **_: Any) -> None:
        super().__init__()

    def construct(self, x: Tensor) -> Tensor:
        return x * ops.sigmoid(QUICK * x)


class QuickGated(Quick):
    def construct(self, gate: Tensor, up: Tensor) -> Tensor:  # type: ignore[override]
        return super().construct(gate) * up


class SwiOnUp(swiglu.Reference):  # type: ignore[name-defined, misc]
    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return super().construct(up, gate)


class GeOnUp(gelu.Gated):  # type: ignore[name-defined, misc]
    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return super().construct(up, gate)


class TwiceBiased(linear.Reference):  # type: ignore[name-defined, misc]
    def construct(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        y = super().construct(x, weight, bias)
        return y if bias is None else y + bias


def _kernels(**wrong: type) -> Block:
    """A block in which models are built with other classes of kernels, on the reference path."""

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name, kind in wrong.items():
                file, owner = {"rope": ("rotary", "Reference"), "geglu": ("gelu", "Gated")}.get(
                    name, (name, "Reference")
                )
                stack.enter_context(override(name, "reference"))
                stack.enter_context(replaced(_module(file), owner, kind))
            yield

    return block


def _method(owner: type, name: str, value: Any) -> Block:
    return lambda: replaced(owner, name, value)


def _heads(change: Callable[..., tuple[Tensor, Tensor, Tensor]]) -> Block:
    """A block in which `change(attention, q, k, v, cos, sin)` does what follows the projections."""

    def heads(self: Any, x: Tensor, cos: Any, sin: Any) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (self.split(part(x)) for part in (self.q, self.k, self.v))
        return change(self, q, k, v, cos, sin)

    return _method(gpt.Attention, "heads", heads)


def _normed(self: Any, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    return (self.q_norm(q), self.k_norm(k)) if self.qk_norm else (q, k)


def _norms_after(self: Any, q: Tensor, k: Tensor, v: Tensor, cos: Any, sin: Any) -> tuple[Tensor, Tensor, Tensor]:
    return (*_normed(self, self.rotate(q, cos, sin), self.rotate(k, cos, sin)), v)


def _v_too(self: Any, q: Tensor, k: Tensor, v: Tensor, cos: Any, sin: Any) -> tuple[Tensor, Tensor, Tensor]:
    q, k = _normed(self, q, k)
    return tuple(self.rotate(x, cos, sin) for x in (q, k, v))  # type: ignore[return-value]


def _late_keys(self: Any, q: Tensor, k: Tensor, v: Tensor, cos: Any, sin: Any) -> tuple[Tensor, Tensor, Tensor]:
    q, k = _normed(self, q, k)
    one_cos, one_sin = cos[:, 1:2], sin[:, 1:2]  # of one step; two turns add up
    length = ops.sqrt(one_cos * one_cos + one_sin * one_sin)  # not 1 where the scaling multiplies cos and sin
    later = (cos * one_cos - sin * one_sin) / length, (sin * one_cos + cos * one_sin) / length
    return self.rotate(q, cos, sin), self.rotate(k, *later), v


def _merged(self: Any, x: Tensor) -> Tensor:
    return x.swapaxes(2, 3).reshape((x.shape[0], x.shape[1], -1))


def _scale(power: float, width: Callable[[Any], int]) -> Block:
    return lambda: replaced(gpt, "score_scale", lambda config, layer: width(config) ** power)


def _post_norm(self: Any, x: Tensor, cos: Any = None, sin: Any = None) -> Tensor:
    after = self.norm1(x + self.attn(x, cos, sin))
    return self.norm2(after + self.mlp(after))


def _no_residual(self: Any, x: Tensor, cos: Any = None, sin: Any = None) -> Tensor:
    after = self.attn(self.norm1(x), cos, sin)
    return after + self.mlp(self.norm2(after))


def _through(order: Callable[[list[Any]], list[Any]]) -> Block:
    """The layers in another order, or not all of them."""

    def construct(self: Any, ids: Tensor) -> Tensor:
        x, cos, sin = self.inputs(ids, self.arange(ids.shape[1]).expand_dims(0), ids.shape[1])
        for block in order(list(self.blocks)):
            x = block(x, cos, sin)
        return self.outputs(x)

    return _method(gpt.GPT, "construct", construct)


def _without_norm(self: Any, x: Tensor) -> Tensor:
    return self.head(x).astype(self.float32)


def _ahead() -> contextlib.AbstractContextManager[None]:
    right = gpt.GPT.inputs
    return replaced(gpt.GPT, "inputs", lambda self, ids, positions, length: right(self, ids, positions + 1, length))


def _dropping(self: Any, x: Tensor) -> Tensor:
    return ops.dropout(x, p=self.p, training=True) if self.p > 0 else x


def _noisy(self: Any, x: Tensor) -> Tensor:
    hidden = self.act(self.gate(x), self.up(x)) if self.gated else self.act(self.up(x))
    return self.dropout(self.down(hidden + 1e-2 * ops.standard_normal(hidden.shape)))


PATCHES: dict[str, Block] = {
    "no_mask": _kernels(attention=Unmasked),
    "mask_reversed": _kernels(attention=Reversed),
    "mask_zero": _kernels(attention=FilledWithZero),
    "mask_late": _kernels(attention=Late),
    "mask_after": _kernels(attention=MaskedAfter),
    "softmax_axis": _kernels(attention=OverQueries),
    "score_cap": _kernels(attention=Capped),
    "kv_tiled": _kernels(attention=Tiled),
    "scale_width": _scale(-0.5, lambda config: config.hidden_size),
    "scale_twice": _scale(-1.0, lambda config: config.head_dim),
    "heads_merged": _method(gpt.Attention, "merge", _merged),
    "rope_missing": _kernels(rope=Unturned),
    "rope_pairs": _kernels(rope=Neighbours),
    "rope_backwards": _kernels(rope=Backwards),
    "rope_late": _heads(_late_keys),
    "rope_on_v": _heads(_v_too),
    "qk_norm_after": _heads(_norms_after),
    "norm_kind": _kernels(layer_norm=ByMeanSquare, rms_norm=Centred),
    "norm_variance": _kernels(layer_norm=Unbiased),
    "eps_outside": _kernels(layer_norm=EpsOutside, rms_norm=RmsEpsOutside),
    "quick_gelu": _kernels(gelu=Quick, geglu=QuickGated),
    "gate_on_up": _kernels(swiglu=SwiOnUp, geglu=GeOnUp),
    "bias_twice": _kernels(linear=TwiceBiased),
    "post_norm": _method(gpt.Block, "construct", _post_norm),
    "no_residual": _method(gpt.Block, "construct", _no_residual),
    "final_norm": _method(gpt.GPT, "outputs", _without_norm),
    "layer_skipped": _through(lambda blocks: blocks[:-1]),
    "run_backwards": _through(lambda blocks: blocks[::-1]),
    "positions_ahead": _ahead,
    "dropout": _method(gpt.Dropout, "construct", _dropping),
    "random_numbers": _method(gpt.MLP, "construct", _noisy),
}
