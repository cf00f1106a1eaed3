"""One function per kernel, several ways to compute it; `selector` decides which and records why."""

from mindport.model.kernels.activation import activation, gated
from mindport.model.kernels.adamw import adamw
from mindport.model.kernels.attention import attention
from mindport.model.kernels.cross_entropy import IGNORED, cross_entropy
from mindport.model.kernels.cross_entropy_share import cross_entropy_share
from mindport.model.kernels.drop import Place, dropout
from mindport.model.kernels.gelu import gelu
from mindport.model.kernels.global_norm import global_norm
from mindport.model.kernels.layer_norm import layer_norm
from mindport.model.kernels.linear import linear
from mindport.model.kernels.rms_norm import rms_norm
from mindport.model.kernels.rotary import rope
from mindport.model.kernels.selector import Choice, choices, choices_table, override
from mindport.model.kernels.swiglu import swiglu

__all__ = [
    "IGNORED",
    "Choice",
    "Place",
    "activation",
    "adamw",
    "attention",
    "choices",
    "choices_table",
    "cross_entropy",
    "cross_entropy_share",
    "dropout",
    "gated",
    "gelu",
    "global_norm",
    "layer_norm",
    "linear",
    "override",
    "rms_norm",
    "rope",
    "swiglu",
]
