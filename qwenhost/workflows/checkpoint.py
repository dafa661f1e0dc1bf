"""The checkpoint in a folder: its config.json, and how many bytes of its weights are which part of the model."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qwenhost.expectations import model_shapes
from qwenhost.records.errors import USAGE, QwenhostError
from qwenhost.records.model_shape import ModelShape, WeightBytes

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
LENGTH = struct.Struct("<Q")
"""A safetensors file begins with the length of its header, which is JSON: name -> dtype, shape, data_offsets."""

MOST_HEADER_BYTES = 100_000_000


def shape_in(folder: Path) -> ModelShape:
    """Return the shape of the checkpoint in a folder. Raises QwenhostError."""
    config = folder / CONFIG
    return model_shapes.of_checkpoint(folder.name, _json(config), _weights(folder), str(config))


def _weights(folder: Path) -> WeightBytes:
    """Return bytes by part; where files are missing yet, all that the index tells is the sum."""
    sizes = dict(size for path in sorted(folder.glob("*.safetensors")) for size in _sizes(path))
    found, told = sum(sizes.values()), _told(folder)
    if told > found:
        return WeightBytes(told)
    parts = {part: sum(size for name, size in sizes.items() if _part(name) == part) for part in WeightBytes.PARTS}
    return WeightBytes(found, **parts)


def _part(name: str) -> str:
    """Return which part of the model a tensor belongs to; empty for those that each token goes through."""
    names = name.split(".")
    if "visual" in names:
        return "vision"
    if "mtp" in names:
        return "mtp"
    return "experts" if "experts" in names else ""


def _told(folder: Path) -> int:
    if not (folder / INDEX).is_file():
        return 0
    metadata = _json(folder / INDEX).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return total if isinstance(total, int) else 0


def _sizes(path: Path) -> Iterator[tuple[str, int]]:
    """Yield name and bytes of each tensor in a file."""
    try:
        with path.open("rb") as file:
            (length,) = LENGTH.unpack(file.read(LENGTH.size))
            if length > MOST_HEADER_BYTES:
                raise ValueError(f"a header of {length} bytes")
            header = json.loads(file.read(length))
        for name, tensor in header.items():
            if name != "__metadata__":
                start, end = tensor["data_offsets"]
                yield name, int(end) - int(start)
    except OSError as error:
        raise QwenhostError(f"{path}: {error.strerror}", exit_code=USAGE) from error
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise QwenhostError(
            f"{path}: no safetensors file: {error}", hint="copy it again", exit_code=USAGE
        ) from error


def _json(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise QwenhostError(
            f"{path}: {getattr(error, 'strerror', None) or error}",
            hint="name a folder with a checkpoint",
            exit_code=USAGE,
        ) from error
    if not isinstance(content, dict):
        raise QwenhostError(f"{path}: not a JSON object", exit_code=USAGE)
    return content
