"""Does bfloat16 survive a file (ml_dtypes) and a MindSpore tensor, bit for bit?"""

import json
import tempfile
from pathlib import Path

import mindspore as ms
import ml_dtypes
import numpy as np

numbers = np.array([1.0, -2.5, 3.140625, 2.0**-66, np.inf], np.float32)  # bfloat16 holds each of them exactly
bits = np.array([0x3F80, 0xC020, 0x4049, 0x1E80, 0x7F80], np.uint16)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "probe.bin")
    numbers.astype(ml_dtypes.bfloat16).tofile(path)
    read = np.fromfile(path, np.uint16)

back = ms.Tensor(read.view(ml_dtypes.bfloat16).astype(np.float32)).astype(ms.bfloat16).asnumpy()
in_file, in_tensor = bool((read == bits).all()), bool((back.astype(np.float32) == numbers).all())
found = "equal in both" if in_file and in_tensor else f"file {in_file}, tensor {in_tensor}: {back.tolist()}"
print(json.dumps({"ok": in_file and in_tensor, "found": found}))
