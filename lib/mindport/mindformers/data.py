"""The training data's sections; where the data lies is the user's to say.

A legacy network takes one column of seq_length + 1 tokens (MindRecord) and shifts it itself; an mcore network takes
four columns of a Megatron dataset. Source: mindformers 1.9.0, configs/general and configs/qwen3.
"""

from __future__ import annotations

from typing import Any

TOKENS = ("input_ids",)
COLUMNS = ("input_ids", "labels", "loss_mask", "position_ids")
UNKNOWN = "PATH/OF/YOUR/TRAINING/DATA"


def graph_data(path: str, seq_length: int, batch_size: int, *, legacy: bool) -> dict[str, Any]:
    """The sections of the graph schema."""
    columns = TOKENS if legacy else COLUMNS
    loader = {"type": "MindDataset", "dataset_dir": path, "shuffle": True} if legacy else megatron(path, seq_length)
    order = {} if legacy else {"construct_args_key": list(columns)}
    dataset = {
        "data_loader": loader, "input_columns": list(columns), **order, "batch_size": batch_size,
        "drop_remainder": True, "num_parallel_workers": 8, "python_multiprocessing": False, "prefetch_size": 1,
        "numa_enable": False,
    }  # fmt: skip
    return {
        "train_dataset": dataset,
        "train_dataset_task": {"type": "CausalLanguageModelDataset", "dataset_config": dataset},
    }


def megatron(path: str, seq_length: int) -> dict[str, Any]:
    """A loader of Megatron's .bin and .idx files: `path` is their name without the suffix."""
    config = {
        "seed": 1234, "split": "1, 0, 0", "seq_length": seq_length, "eod_mask_loss": False,
        "reset_position_ids": False, "create_attention_mask": False, "reset_attention_mask": False,
        "create_compressed_eod_mask": False, "eod_pad_length": 128, "eod": 0, "pad": -1, "data_path": ["1", path],
    }  # fmt: skip
    return {"type": "BlendedMegatronDatasetDataLoader", "datasets_type": "GPTDataset", "sizes": [1000, 0, 0],
            "config": config}  # fmt: skip
