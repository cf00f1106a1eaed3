"""What a forward pass takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

IGNORED = -100  # the label of a token that does not count


@dataclass(frozen=True)
class Batch:
    """Rows of tokens.

    Attributes:
        ids: int32 (B, T); padding at the end of rows.
        labels: int32 (B, T), the ids themselves, −100 where a token is not to be predicted: in padding, in a prompt.
            The loss shifts them by one, so the first of a row never counts.
    """

    ids: np.ndarray
    labels: np.ndarray

    @property
    def counted(self) -> int:
        """Tokens that the loss is a mean of."""
        return int((self.labels[:, 1:] != IGNORED).sum())
