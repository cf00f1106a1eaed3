"""What the model writes: the same prompts continued again and again while it learns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mindport.errors import UsageError
from mindport.training.monitor.evaluate import evaluating
from mindport.training.monitor.events import Sample

if TYPE_CHECKING:
    from mindport.model import GPT


class Sampler:
    """Continues prompts, the likeliest token each time, so that nothing but the weights can change the text.

    All prompts are padded to one length: one graph, compiled with the first sample.

    Args:
        model: that is trained; its train mode is as before afterwards.
        tokenizer: the model's tokenizer.json.
        prompts: as plain text; what a chat template adds must be in them.
        tokens: to add at most; a sample ends where the model ends its text.

    Raises:
        UsageError: a prompt is empty, or too long for the model, or has ids outside its vocabulary.
    """

    def __init__(self, model: GPT, tokenizer: Path, prompts: Sequence[str], tokens: int) -> None:
        from tokenizers import Tokenizer

        self.model, self.prompts, self.tokens = model, tuple(prompts), tokens
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._ids = [self._tokenizer.encode(prompt).ids for prompt in self.prompts]
        self._length = max(map(len, self._ids), default=0) + tokens
        for prompt, ids in zip(self.prompts, self._ids, strict=True):
            self._check(prompt, ids)

    def __call__(self, step: int) -> list[Sample]:
        """A sample of each prompt, by the weights as they are."""
        with evaluating(self.model):
            return [Sample(step, prompt, self._continue(ids))
                    for prompt, ids in zip(self.prompts, self._ids, strict=True)]  # fmt: skip

    def _continue(self, ids: Sequence[int]) -> str:
        from mindport.model import greedy

        added = greedy(self.model, ids, self.tokens, length=self._length)
        ends = self.model.config.eos_token_id
        ends = {ends} if isinstance(ends, int) else set(ends or ())
        until = next((index for index, token in enumerate(added) if token in ends), len(added))
        return self._decode([*ids, *added[:until]])[len(self._decode(ids)) :]

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def _check(self, prompt: str, ids: Sequence[int]) -> None:
        config = self.model.config
        if not ids:
            raise UsageError("a prompt has no tokens", where="monitor.prompts", got=repr(prompt))
        if max(ids) >= config.vocab_size:
            raise UsageError("a prompt has ids that the model does not know", where=repr(prompt), got=max(ids),
                             expected=f"below {config.vocab_size}", do="give the model's own tokenizer")  # fmt: skip
        if self._length > config.max_position_embeddings:
            raise UsageError("the samples would be longer than the model's positions", where="monitor.prompts",
                             got=f"{self._length} tokens, {self.tokens} of them new",
                             expected=f"at most {config.max_position_embeddings}",
                             do="shorten the prompts, or monitor.sample_tokens")  # fmt: skip
