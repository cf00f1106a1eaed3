"""Do two frameworks live in one process, imported in the order of the arguments?"""

import importlib
import json
import sys

import numpy as np

frameworks = {name: importlib.import_module(name) for name in sys.argv[1:]}
a = np.arange(6, dtype=np.float32).reshape(2, 3)
tensors = {"torch": lambda module: module.from_numpy(a), "mindspore": lambda module: module.Tensor(a)}
products = []
for name, module in frameworks.items():
    tensor = tensors[name](module)
    product = module.matmul(tensor, tensor.T) if name == "torch" else module.ops.matmul(tensor, tensor.T)
    products.append((product.numpy() if name == "torch" else product.asnumpy()).tolist())
ok = all(product == (a @ a.T).tolist() for product in products)
print(json.dumps({"ok": ok, "found": "both multiply" if ok else f"products {products}"}))
