"""Text to batches of tokens: `prepare` once, `open_data` and `Prepared.batches` at every run. Needs no framework.

files, arrow      .txt, .jsonl and datasets on disk, cut into parts
documents         the documents of a part, each checked, each with its line
tokenizer, chat   the model's own tokenizer and chat template
encoder           documents to tokens; which of them count
pool, worker      the same in several processes; shard: what they leave
division          which documents are held out
layouts           documents to rows: packed or padded
record_writer     rows to MindRecord; assemble: from shards to there
manifest          what a directory holds, with digests
record_reader     rows of MindRecord, read in place
order, batches    which rows a batch has, and from which position the rest is the same again
"""

from mindport.training.data.batch import IGNORED, Batch
from mindport.training.data.batches import Batches
from mindport.training.data.order import Position
from mindport.training.data.prepare import prepare
from mindport.training.data.prepared import Prepared, open_data
from mindport.training.data.report import DataReport

__all__ = ["IGNORED", "Batch", "Batches", "DataReport", "Position", "Prepared", "open_data", "prepare"]
