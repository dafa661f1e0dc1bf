"""A checkpoint's folder: its own figures win over those of any table."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from qwenhost.records.errors import QwenhostError
from qwenhost.workflows.checkpoint import shape_in
from qwenhost.workflows.serving_plan import model_of
from tests.serving.test_kv_cache import TINY

TENSORS = {
    "model.language_model.embed_tokens.weight": 4000,
    "model.language_model.layers.0.mlp.experts.gate_up_proj": 6400,
    "model.language_model.layers.0.mlp.shared_expert.up_proj.weight": 100,
    "model.visual.blocks.0.attn.qkv.weight": 600,
    "mtp.layers.0.mlp.experts.down_proj": 200,
}
MIXTURE = {"text_config": TINY["text_config"] | {"num_experts": 64, "num_experts_per_tok": 8}}


def write(path: Path, tensors: dict[str, int]) -> None:
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "BF16", "shape": [size // 2], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(MIXTURE))
    names = list(TENSORS)
    write(tmp_path / "model-00001-of-00002.safetensors", {name: TENSORS[name] for name in names[:2]})
    write(tmp_path / "model-00002-of-00002.safetensors", {name: TENSORS[name] for name in names[2:]})
    return tmp_path


def test_parts_are_told_apart_by_the_names_of_tensors(folder: Path) -> None:
    shape = shape_in(folder)
    assert shape.weight_bytes == {"bf16": 11300}
    assert (shape.vision_params, shape.mtp_params, shape.text_params) == (300, 100, 5250)
    assert shape.loaded_bytes("bf16", vision=False, mtp=False) == 10500


def test_token_goes_through_its_experts_only(folder: Path) -> None:
    assert shape_in(folder).active_params == (4100 + 6400 // 8) // 2


def test_index_tells_the_sum_while_files_are_missing(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 50000}}')
    shape = shape_in(folder)
    assert (shape.weight_bytes, shape.vision_params) == ({"bf16": 50000}, 0)


def test_folder_wins_over_the_name_that_it_has(folder: Path) -> None:
    named = folder.rename(folder.with_name("qwen3.5-27b"))
    shape, precision = model_of(str(named))
    assert (shape.weight_bytes["bf16"], precision) == (11300, "bf16")


@pytest.mark.parametrize(
    "content",
    [b"", b"abc", struct.pack("<Q", 4) + b"{no}", struct.pack("<Q", 2**60), struct.pack("<Q", 2) + b"[]"],
)
def test_broken_weights_are_named(content: bytes, folder: Path) -> None:
    (folder / "model-00001-of-00002.safetensors").write_bytes(content)
    with pytest.raises(QwenhostError, match=r"model-00001-of-00002\.safetensors: no safetensors file") as refused:
        shape_in(folder)
    assert refused.value.exit_code == 2
