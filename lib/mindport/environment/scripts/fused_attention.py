"""Has this device a fused attention kernel, and where does PyNative say so: at the call or at the sync?"""

import json

import mindspore as ms
import numpy as np

query = ms.Tensor(np.ones((1, 2, 16, 16), np.float16))  # (B, H, T, D)
place = "at the call"
try:
    output = ms.ops.flash_attention_score(query, query, query, 2, input_layout="BNSD")
    output = output[0] if isinstance(output, tuple) else output
    place = "at .asnumpy(), not at the call"
    ok = bool(np.isfinite(output.asnumpy()).all())
    found = "the kernel is here and its output is finite" if ok else "the kernel is here, its output is not finite"
except RuntimeError as error:
    message = str(error).strip().splitlines()[0]
    ok = "unregistered" in message  # an honest absence; plain attention is used
    found = f"{message} (said {place})"
print(json.dumps({"ok": ok, "found": found}))
