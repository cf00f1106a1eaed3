"""Our model on Ascend cards: the script, its strategies. Not verified on a card."""

from __future__ import annotations

from mindport.parallel.ascend.script import ascend_script
from mindport.parallel.ascend.strategies import Strategy, strategies, strategies_table

__all__ = ["Strategy", "ascend_script", "strategies", "strategies_table"]
