"""Train the two tiny models that MindPort ships: a GPT-2 and a LLaMA, real in every way but size.

    python data/make_tiny_models.py [tiny-gpt2] [tiny-llama] [--steps N] [--threads N]

Each gets its own byte-level BPE tokenizer, trained like the model on nine tenths of `corpus/shakespeare.txt`; the
perplexity in its README is measured on the tenth that neither saw, after the saved files are read back. The shapes
are awkward on purpose: hardly two dimensions are equal, so a transposed weight seldom passes unseen, and the LLaMA's
rotary scaling changes ten of its twelve frequencies. Needs torch, transformers and some minutes of CPU.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, PreTrainedTokenizerFast
from transformers.modeling_utils import PreTrainedModel

from mindport.files import atomic_directory, write_json, write_text

HERE = Path(__file__).parent
CORPUS = HERE / "corpus" / "shakespeare.txt"
SEED = 20251
BATCH = 32
EVALUATE_EVERY = 50
PEAK_LR, WARMUP, WEIGHT_DECAY = 3e-3, 50, 0.1


@dataclass(frozen=True)
class Recipe:
    """One model: its config, tokenizer and the precision it is saved in.

    Attributes:
        special: the special tokens, in the order of their ids; the last one ends a text.
        bos: the token that the tokenizer puts before every text, or None.
        window: tokens in one training sequence.
    """

    name: str
    config: GPT2Config | LlamaConfig
    special: tuple[str, ...]
    bos: str | None
    window: int
    steps: int
    dtype: torch.dtype


GPT2 = Recipe(
    name="tiny-gpt2",
    config=GPT2Config(
        vocab_size=512,
        n_positions=128,
        n_embd=96,
        n_layer=4,
        n_head=6,
        n_inner=320,  # not 4 × 96: the default must not be taken for the value
        bos_token_id=0,
        eos_token_id=0,
    ),
    special=("<|endoftext|>",),
    bos=None,
    window=128,
    steps=600,
    dtype=torch.float32,
)

LLAMA = Recipe(
    name="tiny-llama",
    config=LlamaConfig(
        vocab_size=768,
        hidden_size=120,
        intermediate_size=216,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=24,  # 6 × 24 = 144, not hidden_size
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 20000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
    ),
    special=("<|begin_of_text|>", "<|end_of_text|>"),
    bos="<|begin_of_text|>",
    window=160,
    steps=600,
    dtype=torch.bfloat16,
)


def split(text: str, block: int = 4096) -> tuple[str, str]:
    """Training and held-out text: every tenth block of characters is held out."""
    blocks = [text[start : start + block] for start in range(0, len(text), block)]
    held_out = blocks[9::10]
    return "".join(b for i, b in enumerate(blocks) if i % 10 != 9), "".join(held_out)


def train_tokenizer(recipe: Recipe, text: str) -> Tokenizer:
    """A byte-level BPE tokenizer with the recipe's special tokens and exactly its vocabulary size."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.config.vocab_size,
        special_tokens=list(recipe.special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    if recipe.bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{recipe.bos} $A", special_tokens=[(recipe.bos, tokenizer.token_to_id(recipe.bos))]
        )
    return tokenizer


def initial_model(config: GPT2Config | LlamaConfig) -> PreTrainedModel:
    """A fresh model whose biases are not zero, so that a bias that gets no gradient (GPT-2's keys) still counts."""
    torch.manual_seed(SEED)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=config.initializer_range)
    return model


def windows(tokens: torch.Tensor, starts: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """Sequences (B, T) that begin at `starts`, each after the token that the tokenizer puts first."""
    length = recipe.window - bool(recipe.bos)
    rows = tokens[starts[:, None] + torch.arange(length)]  # (B, T) or (B, T - 1)
    if recipe.bos:
        rows = torch.cat([torch.full((len(rows), 1), recipe.config.bos_token_id), rows], dim=1)
    return rows


@torch.no_grad()
def perplexity(model: PreTrainedModel, tokens: torch.Tensor, recipe: Recipe) -> float:
    """Per-token perplexity over consecutive windows of `tokens`, in the model's own precision."""
    model.eval()
    length = recipe.window - bool(recipe.bos)
    rows = windows(tokens, torch.arange(0, len(tokens) - length + 1, length), recipe)
    losses = [model(input_ids=batch, labels=batch).loss.item() * len(batch) for batch in rows.split(BATCH)]
    return math.exp(sum(losses) / len(rows))


def unigram_perplexity(train: torch.Tensor, held_out: torch.Tensor, vocab_size: int) -> float:
    """The perplexity of token frequencies alone, with one added to every count."""
    counts, total = Counter(train.tolist()), len(train) + vocab_size
    nats = -sum(math.log((counts[token] + 1) / total) for token in held_out.tolist())
    return math.exp(nats / len(held_out))


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to a tenth of the peak."""
    if step < WARMUP:
        return PEAK_LR * (step + 1) / WARMUP
    return PEAK_LR * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP))))


def optimizer_for(model: PreTrainedModel) -> torch.optim.AdamW:
    """AdamW that decays matrices only."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=PEAK_LR, betas=(0.9, 0.95))


def train(model: PreTrainedModel, tokens: torch.Tensor, held_out: torch.Tensor, recipe: Recipe, steps: int) -> int:
    """Train, and leave `model` with the weights of its best evaluation; returns the step they come from."""
    optimizer, draw = optimizer_for(model), torch.Generator().manual_seed(SEED)
    best, best_step, best_weights = math.inf, 0, model.state_dict()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        model.train()
        batch = windows(tokens, torch.randint(len(tokens) - recipe.window, (BATCH,), generator=draw), recipe)
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % EVALUATE_EVERY == 0 or step + 1 == steps:
            now = perplexity(model, held_out, recipe)
            print(f"{recipe.name} step {step + 1}: loss {loss.item():.3f}, held-out perplexity {now:.2f}", flush=True)
            if now < best:
                best, best_step, best_weights = now, step + 1, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_weights)
    return best_step


def save(model: PreTrainedModel, tokenizer: Tokenizer, recipe: Recipe, directory: Path) -> None:
    """Write the Hugging Face directory as transformers writes it."""
    model.to(recipe.dtype).save_pretrained(directory)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=recipe.bos or recipe.special[-1],
        eos_token=recipe.special[-1],
        model_max_length=recipe.config.max_position_embeddings,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(directory)


def make(recipe: Recipe, steps: int) -> None:
    """Train one model from nothing to its directory under `data/models/`."""
    began = time.perf_counter()
    train_text, held_out_text = split(CORPUS.read_text(encoding="ascii"))
    tokenizer = train_tokenizer(recipe, train_text)
    tokens, held_out = encode(tokenizer, train_text), encode(tokenizer, held_out_text)
    model = initial_model(recipe.config)
    best_step = train(model, tokens, held_out, recipe, steps)
    with atomic_directory(HERE / "models" / recipe.name, overwrite=True) as directory:
        save(model, tokenizer, recipe, directory)
        facts = {
            "name": recipe.name,
            "kind": "self-trained",
            **measure(directory, tokens, held_out, recipe),
            "held_out_bytes": len(held_out_text),
            "train_bytes": len(train_text),
            "best_step": best_step,
            "steps": steps,
            "batch": BATCH,
            "window": recipe.window,
            "seed": SEED,
            "seconds": round(time.perf_counter() - began),
        }
        write_json(directory / "training.json", facts)
        write_text(directory / "README.md", readme(recipe, facts))


def encode(tokenizer: Tokenizer, text: str) -> torch.Tensor:
    """The ids of a text (N,), without special tokens."""
    return torch.tensor(tokenizer.encode(text, add_special_tokens=False).ids)


def measure(directory: Path, tokens: torch.Tensor, held_out: torch.Tensor, recipe: Recipe) -> dict[str, Any]:
    """Figures of the saved model, read back from its files and run in fp32."""
    saved = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    return {
        "held_out_perplexity": round(perplexity(saved, held_out, recipe), 2),
        "unigram_perplexity": round(unigram_perplexity(tokens, held_out, recipe.config.vocab_size), 2),
        "uniform_perplexity": recipe.config.vocab_size,
        "held_out_tokens": len(held_out),
        "train_tokens": len(tokens),
        "parameters": saved.num_parameters(),
    }


def readme(recipe: Recipe, facts: dict[str, Any]) -> str:
    """The model's card, from the figures in `training.json`."""
    bits = math.log2(facts["held_out_perplexity"]) * facts["held_out_tokens"] / facts["held_out_bytes"]
    family = type(recipe.config).__name__.removesuffix("Config")
    precision = str(recipe.dtype).removeprefix("torch.")
    return f"""# {recipe.name}

A **self-trained** {family} of {facts["parameters"]:,} parameters in Hugging Face format, made by
`data/make_tiny_models.py` for tests and lessons. It is nobody's published checkpoint, and it writes poor verse.

| on held-out text ({facts["held_out_tokens"]:,} tokens) | perplexity per token |
|---|---|
| this model, read back from its files in fp32 | {facts["held_out_perplexity"]:.2f} |
| token frequencies alone (unigram) | {facts["unigram_perplexity"]:.2f} |
| nothing known (uniform) | {facts["uniform_perplexity"]} |

That is {bits:.2f} bits per byte. Trained on {facts["train_tokens"]:,} tokens of `data/corpus/shakespeare.txt`
(nine blocks of 4096 characters in ten; the tenth is held out): batches of {facts["batch"]} × {facts["window"]}
tokens, AdamW, seed {facts["seed"]}; step {facts["best_step"]} of {facts["steps"]} was the best of the evaluations every
{EVALUATE_EVERY} steps. The held-out text chose that step, so its perplexity is a little kind. Weights are saved in
{precision}; all figures are in `training.json`.

Licence: the text is in the public domain (`data/corpus/LICENSE.md`); tokenizer and weights were made from it alone and
come under the terms of this repository.
"""


def main() -> None:
    """Make the models that the command line names; all of them when it names none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="tiny-gpt2, tiny-llama (default: both)")
    parser.add_argument("--steps", type=int, help="training steps, instead of the recipe's")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU; 1 is faster on a busy machine")
    arguments = parser.parse_args()
    recipes = {recipe.name: recipe for recipe in (GPT2, LLAMA)}
    if strangers := set(arguments.names) - set(recipes):
        parser.error(f"no such model: {', '.join(sorted(strangers))}; there are {', '.join(recipes)}")
    torch.set_num_threads(arguments.threads)
    for name in arguments.names or recipes:
        make(recipes[name], arguments.steps or recipes[name].steps)


if __name__ == "__main__":
    main()
