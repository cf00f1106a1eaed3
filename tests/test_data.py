"""What `data/` promises: small, licensed, loadable, awkward in shape, and honest about its quality."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from safetensors import safe_open

from mindport.processes import run_file
from mindport.sources import corpus, resolve, text_file

DATA = Path(__file__).parents[1] / "data"
NAMES = ("tiny-gpt2", "tiny-llama")


def read(name: str, file: str) -> dict:
    """A JSON file of a bundled model."""
    return json.loads((resolve(name) / file).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_size(name: str) -> None:
    assert sum(path.stat().st_size for path in resolve(name).iterdir()) <= 4_000_000


@pytest.mark.parametrize("name", NAMES)
def test_card_says_what_was_recorded(name: str) -> None:
    facts, card = read(name, "training.json"), (resolve(name) / "README.md").read_text(encoding="utf-8")
    assert facts["kind"] == "self-trained"
    assert "self-trained" in card
    figures = [
        line.split("|")[2].strip() for line in card.splitlines() if line.startswith(("| this", "| token", "| no"))
    ]
    keys = ("held_out_perplexity", "unigram_perplexity", "uniform_perplexity")
    assert [float(figure) for figure in figures] == [facts[key] for key in keys]
    assert f"{facts['parameters']:,} parameters" in card


@pytest.mark.parametrize("name", NAMES)
def test_the_model_learned(name: str) -> None:
    facts = read(name, "training.json")
    assert facts["held_out_perplexity"] < facts["unigram_perplexity"] / 4
    assert facts["unigram_perplexity"] < facts["uniform_perplexity"]


@pytest.mark.parametrize("name", NAMES)
def test_weights_count_and_precision(name: str) -> None:
    with safe_open(resolve(name) / "model.safetensors", "np") as file:
        slices = {key: file.get_slice(key) for key in file.keys()}
        sizes = [1] * len(slices)
        for i, view in enumerate(slices.values()):
            for length in view.get_shape():
                sizes[i] *= length
        types = {view.get_dtype() for view in slices.values()}
    assert sum(sizes) == read(name, "training.json")["parameters"]
    assert types == {"F32" if name == "tiny-gpt2" else "BF16"}


def test_gpt2_is_awkward() -> None:
    config = read("tiny-gpt2", "config.json")
    assert config["n_layer"] >= 3
    assert config["n_inner"] not in (None, 4 * config["n_embd"])
    assert config["tie_word_embeddings"] is True
    assert config["activation_function"] == "gelu_new"


def test_llama_is_awkward() -> None:
    config = read("tiny-llama", "config.json")
    assert config["num_hidden_layers"] >= 3
    assert config["num_key_value_heads"] < config["num_attention_heads"]
    assert config["head_dim"] * config["num_attention_heads"] != config["hidden_size"]
    assert config["tie_word_embeddings"] is False
    rope = config["rope_parameters"]
    assert rope["rope_type"] == "llama3"
    assert rope["original_max_position_embeddings"] < config["max_position_embeddings"]


@pytest.mark.parametrize("name", NAMES)
def test_tokenizer_round_trip(name: str) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(resolve(name) / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == read(name, "config.json")["vocab_size"]
    text = corpus().read_text(encoding="ascii")[:5000] + "  naïve 日本 1984\n\n"
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids) == text
    assert len(encoded.ids) < len(text) / 1.5
    assert (encoded.tokens[0] == "<|begin_of_text|>") == (name == "tiny-llama")


def test_tokenizers_differ() -> None:
    assert len({(resolve(name) / "tokenizer.json").read_bytes() for name in NAMES}) == len(NAMES)


def test_corpus_has_its_licence() -> None:
    licence = (DATA / "corpus" / "LICENSE.md").read_text(encoding="utf-8")
    assert "public domain" in licence
    assert f"{corpus().stat().st_size:,} bytes" in licence
    assert "f393d09d07ea4d0e" in licence  # the package that it was taken from


def test_the_questions_are_as_their_script_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = run_file(DATA / "make_questions.py")
    monkeypatch.setattr(script, "QUESTIONS", tmp_path / "questions.jsonl")
    script.main()
    assert (tmp_path / "questions.jsonl").read_bytes() == text_file("questions").read_bytes()


def test_the_questions_have_right_answers() -> None:
    lines = text_file("questions").read_text(encoding="utf-8").splitlines()
    talks = [json.loads(line)["messages"] for line in lines]
    turns = [(ask["content"], say["content"]) for talk in talks for ask, say in batched(talk)]
    assert len(talks) == 240 and len(set(turns)) == len(turns) == 300 and {len(talk) for talk in talks} == {2, 4}
    sums = [answer for _, answer in turns if re.fullmatch(r"\d+ [-+] \d+ = \d+\.", answer)]
    assert len(sums) > 40 and all(eval(sum_.rstrip(".").replace("=", "==")) for sum_ in sums)
    lines = [(q.split('"')[1], a.split(" says")[0]) for q, a in turns if q.startswith("Who says")]
    said = corpus().read_text(encoding="ascii")
    assert len(lines) == 150
    assert all(re.search(rf"^{who.upper()}\.?\n{re.escape(line)}$", said, re.MULTILINE) for line, who in lines)


def batched(talk: list[dict[str, str]]) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Question and answer, again and again."""
    assert [message["role"] for message in talk] == ["user", "assistant"] * (len(talk) // 2)
    return list(zip(talk[::2], talk[1::2], strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_transformers_loads_both_offline(name: str) -> None:
    """The perplexity of the card, on a part of the held-out text: the files are the model that was measured."""
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(resolve(name), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(resolve(name))
    text = corpus().read_text(encoding="ascii")
    blocks = [text[start : start + 4096] for start in range(9 * 4096, len(text), 10 * 4096)]
    facts = read(name, "training.json")
    rows = torch.tensor([tokenizer(block).input_ids[: facts["window"]] for block in blocks])
    with torch.no_grad():
        perplexity = model(input_ids=rows, labels=rows).loss.exp().item()
    assert perplexity == pytest.approx(facts["held_out_perplexity"], rel=0.2)
