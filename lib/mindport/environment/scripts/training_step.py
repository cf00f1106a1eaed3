"""One step of gradient descent in PyNative and in Graph mode, held to the same step written in NumPy."""

import json

import mindspore as ms
import numpy as np
from mindspore import nn

RATE, LIMIT = 0.1, 1e-6
weight = np.array([[0.5, -0.3, 0.8], [0.1, 0.9, -0.7]], np.float32)
x = np.array([[1.0, 2.0, -1.0], [0.5, -1.5, 2.0]], np.float32)
y = np.array([[0.0, 1.0], [1.0, 0.0]], np.float32)


class TrainStep(nn.Cell):
    """Loss, gradients and update in one Cell, so that Graph mode compiles all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Dense(3, 2, weight_init=ms.Tensor(weight), has_bias=False)
        self.optimizer = nn.SGD(self.network.trainable_params(), learning_rate=RATE)
        self.gradients = ms.value_and_grad(self.loss, None, self.optimizer.parameters)

    def loss(self, x: ms.Tensor, y: ms.Tensor) -> ms.Tensor:
        return ((self.network(x) - y) ** 2).mean()

    def construct(self, x: ms.Tensor, y: ms.Tensor) -> ms.Tensor:
        loss, gradients = self.gradients(x, y)
        self.optimizer(gradients)
        return loss


def run(mode: int) -> np.ndarray:
    """The weight after one step, and the loss before it."""
    ms.set_context(mode=mode)
    step = TrainStep()
    loss = step(ms.Tensor(x), ms.Tensor(y)).asnumpy()
    return np.append(step.network.weight.asnumpy().ravel(), loss)


error = x @ weight.T - y
by_hand = np.append((weight - RATE * 2 / error.size * error.T @ x).ravel(), (error**2).mean())
pynative, graph = (float(np.abs(run(mode) - by_hand).max()) for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE))
found = f"difference to NumPy: PyNative {pynative:.1e}, Graph {graph:.1e} (limit {LIMIT:.0e})"
print(json.dumps({"ok": max(pynative, graph) <= LIMIT, "found": found}))
