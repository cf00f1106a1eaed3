"""Every operator under the address and undefined-behaviour sanitizers: `python -m tests.model.kernels.sanitize`.

The sources are compiled with the sanitizers for this CPU's vectors and for narrower ones, then called on buffers of
exactly their size (cpp/drive.cc, operators.py). Then each operator is called once more with its last output one
element short, which is a write out of bounds: a run in which that is not seen proves nothing, and fails too.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from mindport.environment.system import find_compiler
from mindport.model.kernels.library import FLAGS, SOURCES
from tests.model.kernels.operators import OPERATORS

DRIVER = Path(__file__).parent / "cpp" / "drive.cc"
WATCH = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-O1", "-g",
         "-rdynamic", "-ldl")  # fmt: skip
NARROWER = ("-mno-avx512f", "-mno-avx") if platform.machine() in ("x86_64", "AMD64") else ()
# memory that ends with the process is no leak, and looking for leaks takes a right that containers lack
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1", "OMP_NUM_THREADS": "2"}


def build(directory: Path, *flags: str) -> Path:
    program = directory / "drive"
    kept = [flag for flag in FLAGS if flag not in ("-O3", "-shared", "-fPIC")]
    sources = [str(DRIVER), *sorted(map(str, SOURCES.glob("*.cc")))]
    subprocess.run([*find_compiler(os.environ), *kept, *flags, *WATCH, *sources, "-o", str(program)], check=True)
    return program


def drive(program: Path, lines: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *options], input="\n".join(lines), text=True, capture_output=True, timeout=600,
                          env={**os.environ, **OPTIONS})  # fmt: skip


def line(name: str, case: list) -> str:
    return " ".join([name, *(array.word() for array in case)])


def clean(program: Path) -> bool:
    """Whether all cases of all operators pass; prints what the sanitizers say."""
    done = drive(program, [line(name, case) for name, cases in OPERATORS.items() for case in cases])
    print(done.stdout + done.stderr, end="")
    return done.returncode == 0


def unseen(program: Path) -> list[str]:
    """The operators whose planted write out of bounds is not seen: none, if the sanitizers watch."""
    return [
        name for name, cases in OPERATORS.items()
        if "ERROR: AddressSanitizer" not in drive(program, [line(name, largest(cases))], "--short").stderr
    ]  # fmt: skip


def largest(cases: list) -> list:
    """The one with the largest last output."""
    return max(cases, key=lambda case: math.prod(case[-1].shape))


def main() -> int:
    for flags in ((), *((flag,) for flag in NARROWER)):
        with tempfile.TemporaryDirectory() as directory:
            print(" ".join(("sanitize:", *(flags or ("this CPU",)))), flush=True)
            program = build(Path(directory), *flags)
            if not clean(program):
                return 1
            if missed := unseen(program):
                print("a planted write out of bounds was not seen in", *missed)
                return 1
            print(f"a planted write out of bounds was seen in each of {len(OPERATORS)} operators")
    return 0


if __name__ == "__main__":
    sys.exit(main())
