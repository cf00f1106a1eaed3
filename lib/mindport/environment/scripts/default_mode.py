"""Which mode does a fresh MindSpore process start in?"""

import json

import mindspore as ms

pynative = ms.get_context("mode") == ms.PYNATIVE_MODE
print(json.dumps({"ok": pynative, "found": "PyNative" if pynative else "Graph"}))
