"""The Qwen3.5 sizes that exist; many that people ask for do not."""

from __future__ import annotations

import re
from math import log

from qwenhost.expectations.tables import table

FILE = "models/qwen3.5.yaml"
NAME = re.compile(r"qwen[-_ ]?3\.5[-_ ](?P<size>\d+(?:\.\d+)?b(?:-a\d+b)?)", re.IGNORECASE)


SMALLEST = 0.1
"""Billions; a size of nothing has no neighbours in proportion."""


def nearest_sizes(model: str) -> tuple[str, ...]:
    """Return nothing for a model that may exist, else the nearest real sizes of the family."""
    match = NAME.search(model)
    sizes: list[str] = table(FILE)["sizes"]
    if match is None or match["size"].lower() in sizes:
        return ()
    wanted = max(_billions(match["size"].lower()), SMALLEST)
    return tuple(sorted(sizes, key=lambda size: abs(log(_billions(size) / wanted)))[:2])


def _billions(size: str) -> float:
    return float(size.split("b")[0])


def all_sizes() -> tuple[str, ...]:
    """Return the sizes of the family, as they stand in names."""
    return tuple(table(FILE)["sizes"])
