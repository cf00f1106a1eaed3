"""Are the first tensor operations of a process right? A warm-up would hide the fault, so there is none."""

import json

import mindspore as ms
import numpy as np

x = ms.Tensor(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32))
added = x + 1.0
transposed = x.T
filled = x.masked_fill(x > 3.0, float("-inf"))

ok = added.asnumpy().tolist() == [[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]
ok &= transposed.asnumpy().tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
ok &= bool(np.isneginf(filled.asnumpy()).sum() == 3)
ok &= float(ms.Tensor([1.0, 2.0, 3.0]).sum().asnumpy()) == 6.0
print(json.dumps({"ok": ok, "found": f"x + 1, x.T, masked_fill and sum, with NumPy {np.__version__}"}))
