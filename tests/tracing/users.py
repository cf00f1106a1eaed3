"""What a user has: a torch module of their own and its MindSpore twin, as the files that `mindport trace` takes.

A small vision model in front of a small transformer: a convolution with batch norm, a block that is called twice, a
dropout, tuples and mappings as outputs, an activation in place, a head that nobody calls.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

WIDTH, PATCHES, WORDS = 6, 4, 11

TORCH = """
import numpy as np
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 14), nn.Linear(14, width)
        self.act, self.drop = nn.ReLU(inplace=True), nn.Dropout(0.5)

    def forward(self, x, mask=None):
        hidden = self.act(self.up(self.norm(x)))
        x = x + self.drop(self.down(hidden))
        return x, {"hidden": hidden, "times": 2}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.words = nn.Embedding(11, 6)
        self.blocks = nn.ModuleList([Block(6) for _ in range(2)])
        self.final, self.unused = nn.LayerNorm(6), nn.Linear(3, 3)

    def forward(self, image, ids, attention_mask):
        seen = self.bn(self.conv(image)).flatten(2).mean(-1)  # (B, 6)
        x = self.words(ids) + seen[:, None]
        for block in (self.blocks[0], self.blocks[1], self.blocks[0]):
            x, _ = block(x, mask=attention_mask)
        return self.final(x)


def inputs():
    random = np.random.default_rng(3)
    ids = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]], np.int32)
    image = random.standard_normal((2, 2, 5, 4)).astype(np.float32)
    return {"image": image, "ids": ids, "attention_mask": (ids != 0).astype(np.int32)}


def build():
    net = Net()
    with torch.no_grad():
        for name, x in net.state_dict().items():
            if x.is_floating_point():
                x.add_(0.2 * torch.rand(x.shape))
    return net, inputs()


def saved():
    from safetensors.torch import save_file

    net, given = build()
    save_file(net.state_dict(), "weights.safetensors")
    return net, given


def half():
    net, given = build()
    net, given = net.to(torch.bfloat16), {**given, "image": torch.from_numpy(given["image"]).to(torch.bfloat16)}
    return net, given


def wrong_inputs():
    return build()[0]


def raises():
    return build()[0], {"image": 1}
"""

MINDSPORE = """
import mindspore as ms
import numpy as np
from mindspore import nn
from safetensors.numpy import load_file


class Block(nn.Cell):
    def __init__(self, width, epsilon, between):
        super().__init__()
        self.ln, self.up, self.down = nn.LayerNorm((width,), epsilon=epsilon), nn.Dense(width, 14), nn.Dense(14, width)
        self.act, self.drop, self.between = nn.ReLU(), nn.Dropout(p=0.5), between

    def construct(self, x, mask=None):
        hidden = self.act(self.up(self.ln(x)))
        x = self.between * x + self.drop(self.down(hidden))
        return x, (hidden, 2)


class Net(nn.Cell):
    def __init__(self, epsilon=1e-5, between=1.0):
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, pad_mode="pad", padding=1, has_bias=True)
        self.bn = nn.BatchNorm2d(6, eps=1e-5)
        self.words = nn.Embedding(11, 6)
        self.layers = nn.CellList([Block(6, 1e-5, 1.0), Block(6, epsilon, between)])
        self.final, self.unused = nn.LayerNorm((6,), epsilon=1e-5), nn.Dense(3, 3)

    def construct(self, image, ids, attention_mask):
        seen = self.bn(self.conv(image)).flatten(start_dim=2).mean(-1)
        x = self.words(ids) + seen[:, None]
        for block in (self.layers[0], self.layers[1], self.layers[0]):
            x, _ = block(x, mask=attention_mask)
        return self.final(x)


PLAIN = {"gamma": "weight", "beta": "bias", "embedding_table": "weight", "moving_mean": "running_mean",
         "moving_variance": "running_var"}


def net(**options):
    made, weights = Net(**options), load_file("weights.safetensors")
    for name, parameter in made.parameters_and_names():
        head, _, leaf = name.replace("layers", "blocks").replace("ln", "norm").rpartition(".")
        parameter.set_data(ms.Tensor(weights[f"{head}.{PLAIN.get(leaf, leaf)}"]))
    return made


def inputs():
    random = np.random.default_rng(3)
    ids = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]], np.int32)
    image = random.standard_normal((2, 2, 5, 4)).astype(np.float32)
    return {"image": image, "ids": ids, "attention_mask": (ids != 0).astype(np.int32)}


def build():
    return net(), inputs()


def wrong_epsilon():
    return net(epsilon=1e-2), inputs()


def wrong_between():
    return net(between=1.01), inputs()


def other_weights():
    made = net()
    made.final.gamma.set_data(made.final.gamma * 1.5)
    return made, inputs()


def graph():
    ms.set_context(mode=ms.GRAPH_MODE)
    return net(), inputs()
"""

RULES = ("blocks.{i}=layers.{i}", "norm=ln", "[1][hidden]=[1][0]")


def write(folder: Path) -> tuple[Path, Path]:
    """Both files in a folder."""
    files = folder / "theirs_torch.py", folder / "theirs_mindspore.py"
    for file, text in zip(files, (TORCH, MINDSPORE), strict=True):
        file.write_text(text, encoding="utf-8")
    return files


def load(text: str, name: str) -> ModuleType:
    """One of them as a module of this process."""
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"{name}.py", "exec"), vars(module))
    return module
