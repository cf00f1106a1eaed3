"""Does a transposed, non-contiguous array come back from a safetensors file as it was?"""

import json
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

array = np.arange(6, dtype=np.float32).reshape(2, 3).T  # (3, 2), columns lie in memory as rows
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "probe.safetensors")
    save_file({"array": array}, path)
    back = load_file(path)["array"]

ok = back.shape == array.shape and bool((back == array).all())
wrong = f"wrong bytes: wrote {array.tolist()}, read {back.tolist()}"
print(json.dumps({"ok": ok, "found": "equal value by value" if ok else wrong}))
