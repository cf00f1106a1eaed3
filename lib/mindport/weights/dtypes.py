"""The three precisions that weights come in, by safetensors' codes; bfloat16 is carried bit for bit.

A training's state has whole numbers and truth values besides.
"""

from __future__ import annotations

from typing import Any, Literal

import ml_dtypes
import numpy as np
import xxhash

from mindport.errors import UsageError

Dtype = Literal["keep", "float32", "float16", "bfloat16"]

# np.dtype("bfloat16") is whichever library registered the name last, and mindspore's is its own: never by name
NUMPY: dict[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
ARRAYS = NUMPY | {
    code: np.dtype(name)
    for code, name in {
        "F64": "float64", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
        "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
    }.items()
}  # fmt: skip
CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64, "C64": 64,
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4,
    "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
ADVICE = {"F64": "save the model in float32 first: the reference computes nothing in float64"}
QUANTISED = "these look like quantised weights: dequantise the model first, then convert the result"


def code_of(x: np.ndarray) -> str:
    """safetensors' code for the precision of an array ("BF16")."""
    return next(code for code, dtype in ARRAYS.items() if dtype == x.dtype)


def raw(x: np.ndarray) -> np.ndarray:
    """The bytes of an array as a flat uint8 view (a copy only where it is not contiguous)."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def digest(x: np.ndarray) -> str:
    """128 bits that stand for dtype, shape and every byte of an array.

    XXH3 finds any accident, at the speed of memory; against intent there is the SHA-256 of the whole file.
    """
    state = begin_digest(x.dtype, x.shape)
    state.update(raw(x).data)
    return state.hexdigest()


def begin_digest(dtype: np.dtype, shape: tuple[int, ...]) -> xxhash.xxh3_128:
    """The state of `digest` before the bytes, for those that come in pieces."""
    return xxhash.xxh3_128(f"{dtype} {shape}".encode())


def cast(name: str, x: np.ndarray, code: str) -> tuple[np.ndarray, float]:
    """`x` in another precision, and the largest absolute change that this made.

    Raises:
        UsageError: a finite value would become infinite.
    """
    if x.dtype == NUMPY[code]:
        return x, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        y = x.astype(NUMPY[code])
        before, after = x.astype(np.float32), y.astype(np.float32)
        if lost := int(np.count_nonzero(np.isfinite(before) & np.isinf(after))):
            raise UsageError(
                f"{lost} values do not fit this precision and would become infinite",
                where=name,
                got=f"largest magnitude {np.abs(before[np.isfinite(before)]).max():.6g}",
                expected=f"at most {float(ml_dtypes.finfo(NUMPY[code]).max):.6g} in {NUMPY[code]}",
                do="keep the precision, or take bfloat16 or float32",
            )
        change = np.abs(after - before)
    return y, float(np.max(change, initial=0.0, where=np.isfinite(change)))
