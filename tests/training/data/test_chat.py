"""Conversations and pairs: the text, ids and mask of transformers' own `apply_chat_template`."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import numpy as np
import pytest

from mindport import sources
from mindport.errors import FileError
from mindport.training.data.chat import ChatTemplate, read_template
from mindport.training.data.documents import Document
from mindport.training.data.encoder import Encoder
from tests.training.data.conftest import VOCABULARY

CHATML = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' + '\n' }}"
    "{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' + '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN = CHATML.replace("{% generation %}", "").replace("{% endgeneration %}", "")
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where is Elsinore?"},
    {"role": "assistant", "content": " In Dänemark, 日本 no."},
    {"role": "user", "content": "And the king?"},
    {"role": "assistant", "content": "Dead."},
]


@pytest.fixture(params=[CHATML, PLAIN], ids=["generation blocks", "none"])
def directory(request, model, tmp_path) -> Path:
    """A bundled tokenizer with a chat template."""
    for name in ("tokenizer.json", "config.json"):
        (tmp_path / name).write_bytes((sources.resolve(model) / name).read_bytes())
    settings = json.loads((sources.resolve(model) / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": request.param}))
    return tmp_path


def encode(directory, form, value, model):
    return Encoder(directory, form, VOCABULARY[model]).encode([Document(value, "here:1")])


def test_a_conversation_is_transformers_own(directory, model):
    from transformers import PreTrainedTokenizerFast

    settings = json.loads((directory / "tokenizer_config.json").read_text())
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json"), bos_token=settings["bos_token"],
        eos_token=settings["eos_token"], chat_template=CHATML,
    )  # fmt: skip
    expected = theirs.apply_chat_template(CHAT, return_dict=True, return_assistant_tokens_mask=True)
    found = encode(directory, "chat", CHAT, model)
    mask = found.tokens >= 0
    assert np.where(mask, found.tokens, ~found.tokens).tolist() == expected["input_ids"]
    assert mask.astype(int).tolist() == expected["assistant_masks"] and 0 < mask.sum() < len(mask)
    assert theirs.decode(found.tokens[mask]) == " In Dänemark, 日本 no.<|im_end|>\nDead.<|im_end|>\n"


def test_of_a_pair_the_completion_and_the_end_count(directory, model):
    found = encode(directory, "pair", ("Who is there? ", "Francisco."), model)
    encoder = Encoder(directory, "pair", VOCABULARY[model]).tokenizer
    mask = found.tokens >= 0
    ids = np.where(mask, found.tokens, ~found.tokens)
    middle = encoder.core.encode("Who is there? Francisco.", add_special_tokens=False).ids
    assert ids.tolist() == [*encoder.before, *middle, encoder.eos]
    assert encoder.core.decode(ids[mask].tolist()).strip() == "Francisco." and mask[-1] and not mask[0]


def test_a_text_has_the_special_tokens_of_the_post_processor(directory, model):
    from tokenizers import Tokenizer

    found = encode(directory, "text", "Who is there?", model)
    whole = Tokenizer.from_file(str(directory / "tokenizer.json")).encode("Who is there?").ids
    end = json.loads((directory / "config.json").read_text())["eos_token_id"]
    assert found.tokens.tolist() == [*whole, end]
    assert (whole[0] == 0) == (model == "tiny-llama")  # whose post-processor puts BOS in front


def test_the_bundled_chat_model_as_it_is():
    """SmolLM2's own template has no generation blocks, and adds a system turn."""
    template = ChatTemplate(SMOLLM2, {})
    text, spans = template.render(CHAT[1:])
    assert [text[start:end] for start, end in spans] == [" In Dänemark, 日本 no.<|im_end|>\n", "Dead.<|im_end|>\n"]
    assert text.startswith("<|im_start|>system\nYou are a helpful")


SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
FORGETS = "{% for m in messages %}{{ m.content if loop.last else '…' }}{% endfor %}"


def test_a_template_that_rewrites_earlier_turns_is_refused():
    with pytest.raises(ValueError, match="in another way"):
        ChatTemplate(FORGETS, {}).render(CHAT)


def test_a_template_runs_in_a_sandbox():
    with pytest.raises(jinja2.exceptions.SecurityError):
        ChatTemplate("{{ ''.__class__.__mro__ }}", {}).render(CHAT)


def test_what_a_template_refuses_is_named(directory, model):
    (directory / "chat_template.jinja").write_text("{{ raise_exception('no system turn') }}")
    with pytest.raises(FileError, match=r"refuses(.|\n)*here:1(.|\n)*no system turn"):
        encode(directory, "chat", CHAT, model)
    (directory / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(FileError, match="template is not valid"):
        encode(directory, "chat", CHAT, model)
    (directory / "chat_template.jinja").unlink()
    (directory / "tokenizer_config.json").unlink()
    with pytest.raises(FileError, match="no chat template"):
        read_template(directory, {})
