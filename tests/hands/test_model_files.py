"""A model's files: whole and as promised, or refused by name."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hands.conftest import Hands, Ran

MODEL = "srv/models/tiny"
RECORD = "var/lib/qwenhost/models/srv-models-tiny.json"


def weights(content: bytes = bytes(64)) -> bytes:
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "U8", "data_offsets": [0, len(content)]}}).encode()
    return struct.pack("<Q", len(header)) + header + content


@pytest.fixture
def model(root: Path) -> Path:
    folder = root / MODEL
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "qwen3_5"}')
    for part in ("model-1-of-2.safetensors", "model-2-of-2.safetensors"):
        (folder / part).write_bytes(weights())
    index = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def look(hands: Hands, *options: str) -> Ran:
    return hands("model", {"path": f"/{MODEL}"}, *options)


def promise(folder: Path) -> None:
    files = [file for file in folder.iterdir() if file.suffix in (".json", ".safetensors")]
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def test_a_sound_model_is_looked_at_once(hands: Hands, model: Path, root: Path) -> None:
    assert look(hands, "--check").answer["changed"]
    assert not (root / RECORD).exists()
    assert look(hands).answer["changed"]
    kept = json.loads((root / RECORD).read_text())
    assert kept["path"] == f"/{MODEL}" and len(kept["files"]) == 4
    assert not look(hands).answer["changed"]
    assert (root / RECORD).stat().st_mode & 0o777 == 0o644


def cut(folder: Path) -> None:
    part = folder / "model-2-of-2.safetensors"
    part.write_bytes(part.read_bytes()[:-10])


def lengthen(folder: Path) -> None:
    part = folder / "model-1-of-2.safetensors"
    part.write_bytes(part.read_bytes() + b"rest")


def page_in_its_place(folder: Path) -> None:
    (folder / "model-1-of-2.safetensors").write_text("<html>502 Bad Gateway</html>")


def pointer_in_its_place(folder: Path) -> None:
    (folder / "model-1-of-2.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\n")


def remove(folder: Path) -> None:
    (folder / "model-2-of-2.safetensors").unlink()


def spoil_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": ')


def spoil_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text("[]")


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (cut, "model-2-of-2.safetensors: 129 bytes, 139 by its own header (10 missing)"),
        (lengthen, "model-1-of-2.safetensors: 143 bytes, 139 by its own header (4 too many)"),
        (page_in_its_place, "model-1-of-2.safetensors: no safetensors header"),
        (pointer_in_its_place, "model-1-of-2.safetensors: no safetensors header"),
        (remove, "model-2-of-2.safetensors: named by model.safetensors.index.json, not there"),
        (spoil_config, "config.json: no JSON object"),
        (spoil_index, "model.safetensors.index.json: no index"),
    ],
)
def test_what_is_not_whole_is_refused(hands: Hands, model: Path, harm: Callable[[Path], None], told: str) -> None:
    harm(model)
    ran = look(hands)
    assert (ran.status, told in ran.answer["error"]) == (1, True), ran.answer


@pytest.mark.parametrize("promised", [True, False])
def test_other_bytes_of_the_same_length_are_refused(hands: Hands, model: Path, promised: bool) -> None:
    if promised:
        promise(model)
    assert look(hands).status == 0
    (model / "model-1-of-2.safetensors").write_bytes(weights(bytes(63) + b"\1"))
    ran = look(hands)
    origin = "SHA256SUMS" if promised else "srv-models-tiny.json"
    assert ran.status == 1
    assert "model-1-of-2.safetensors: sha256 " in ran.answer["error"] and origin in ran.answer["error"]


def test_a_new_promise_outdoes_the_earlier_look(hands: Hands, model: Path) -> None:
    look(hands)
    (model / "model-1-of-2.safetensors").write_bytes(weights(b"other"))
    promise(model)
    assert look(hands).status == 0
    (model / "config.json").unlink()
    assert "config.json: not there" in look(hands).answer["error"]


def test_a_touched_file_is_read_again_and_holds(hands: Hands, model: Path) -> None:
    look(hands)
    os.utime(model / "config.json", (1, 1))
    assert look(hands).status == 0
    assert not look(hands).answer["changed"]


@pytest.mark.parametrize("line", ["deadbeef  config.json", f"{'0' * 64}  ../config.json", "", "SHA256 (a) = 00"])
def test_sums_of_another_form_are_refused(hands: Hands, model: Path, line: str) -> None:
    (model / "SHA256SUMS").write_text(f"{line}\n")
    assert "SHA256SUMS: " in look(hands).answer["error"]


def test_a_folder_without_a_model_is_named(hands: Hands, root: Path) -> None:
    assert look(hands).answer["error"].endswith("/srv/models/tiny: No such file or directory")
    (root / MODEL).mkdir(parents=True)
    assert look(hands).answer["error"].endswith("no .safetensors file is there")
    assert hands("model", {"path": "tiny"}).status == 2
