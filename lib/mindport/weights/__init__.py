"""Step 02: Hugging Face weights ↔ MindSpore, with accounts that close."""

from mindport.weights.conversion_report import ConversionReport
from mindport.weights.converter import convert
from mindport.weights.names import natural
from mindport.weights.plan import Plan, plan
from mindport.weights.readers import open_hf
from mindport.weights.repair import break_row, with_name
from mindport.weights.round_trip import RoundTrip, verify_round_trip
from mindport.weights.store import Weights, load, open_converted
from mindport.weights.views import (
    KeyDifference,
    bias_census,
    dtype_policy,
    key_difference,
    name_table,
    rename_table,
    tensor_under_each_name,
)

__all__ = [
    "ConversionReport",
    "KeyDifference",
    "Plan",
    "RoundTrip",
    "Weights",
    "bias_census",
    "break_row",
    "convert",
    "dtype_policy",
    "key_difference",
    "load",
    "name_table",
    "natural",
    "open_converted",
    "open_hf",
    "plan",
    "rename_table",
    "tensor_under_each_name",
    "verify_round_trip",
    "with_name",
]
