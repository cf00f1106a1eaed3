"""An operator without a kernel, then innocent lines: which of them is blamed? `blocking` as argument waits at each."""

import json
import linecache
import sys
import traceback

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

if sys.argv[1:] == ["blocking"]:
    ms.runtime.launch_blocking()
x = Tensor(np.ones((4, 8), np.float32))
blamed, message = 0, ""
try:
    gated = ops.swiglu(x, -1)  # no kernel on a CPU
    doubled = x * 2
    total = doubled.sum()
    print("the sum is", float(total), file=sys.stderr)
    print("gated is", gated.asnumpy().shape, file=sys.stderr)
except RuntimeError as error:
    message = str(error).strip().splitlines()[0]
    blamed = next(frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__)
print(json.dumps({"line": blamed, "code": linecache.getline(__file__, blamed).strip(), "message": message}))
