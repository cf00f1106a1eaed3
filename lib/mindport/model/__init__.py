"""Step 02–03: the GPT in MindSpore, its kernels, and loading converted weights into it."""

from mindport.model import openmp  # noqa: F401  (first: before MindSpore is imported)
from mindport.model.device import settle
from mindport.model.generate import greedy
from mindport.model.gpt import GPT
from mindport.model.kernels import choices_table
from mindport.model.load import load_model
from mindport.model.loss import NextTokenLoss
from mindport.model.precision import Precision, precision_table

__all__ = ["GPT", "NextTokenLoss", "Precision", "choices_table", "greedy", "load_model", "precision_table"]

settle()
