"""MindPort: take a GPT-style model from Hugging Face / PyTorch to MindSpore, and prove each step.

The rooms stand in the order of the notebooks, and a room imports earlier rooms only:
`environment` (00), `sources`, `config` (01), `weights` (02), `model` and `parity` (03), `debug` (04).
Importing this package imports no framework.
"""

__version__ = "0.1.0"
