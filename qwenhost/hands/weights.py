"""What a model's folder says of itself: config, index, and the header of each safetensors file against its size.

A header is an 8-byte little-endian length and so many bytes of JSON: tensor -> {"data_offsets": [begin, end]},
counted from the header's end. Source: huggingface/safetensors, README, "Format".
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any

LENGTH_BYTES = 8
HEADER_LIMIT_BYTES = 100_000_000
"""The format's own limit."""

SUFFIX = ".safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"


def faults(folder: str, sizes: dict[str, int]) -> list[str]:
    """Return what is wrong, a line each; `sizes` are those of the files that are there, in bytes."""
    names = sorted(name for name in sizes if name.endswith(SUFFIX))
    if not names:
        return ["no {} file is there".format(SUFFIX)]
    headers = {name: _fault(os.path.join(folder, name), sizes[name]) for name in names}
    told = ["{}: {}".format(name, fault) for name, fault in headers.items() if fault]
    return [*_config_faults(folder, sizes), *_index_faults(folder, sizes), *told]


def _config_faults(folder: str, sizes: dict[str, int]) -> list[str]:
    if CONFIG not in sizes:
        return ["{}: not there".format(CONFIG)]
    return [] if isinstance(_json(folder, CONFIG), dict) else ["{}: no JSON object".format(CONFIG)]


def _index_faults(folder: str, sizes: dict[str, int]) -> list[str]:
    if INDEX not in sizes:
        return []
    try:
        parts = {str(part) for part in _json(folder, INDEX)["weight_map"].values()}
    except (KeyError, TypeError, AttributeError):
        return ["{}: no index".format(INDEX)]
    return ["{}: named by {}, not there".format(part, INDEX) for part in sorted(parts - {*sizes})]


def _json(folder: str, name: str) -> Any:
    """Return the content of a JSON file, None where it is none."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)
    except ValueError:
        return None


def _fault(path: str, size: int) -> str:
    """Return what contradicts the header of one file, empty for nothing."""
    try:
        length, end = _extent(path)
    except (ValueError, TypeError, KeyError, AttributeError, struct.error):
        return "no safetensors header"
    whole = LENGTH_BYTES + length + end
    if size == whole:
        return ""
    return "{} bytes, {} by its own header ({} {})".format(
        size, whole, abs(whole - size), "missing" if size < whole else "too many"
    )


def _extent(path: str) -> tuple[int, int]:
    """Return the length of the header, and the end of the last tensor behind it."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(LENGTH_BYTES))
        if length > HEADER_LIMIT_BYTES:
            raise ValueError("longer than the format allows")
        header = json.loads(file.read(length).decode("utf-8"))
    ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
    return length, max(ends, default=0)
