"""The Qwen3.5 sizes that exist; many that people ask for do not."""

from __future__ import annotations

import difflib
import re

from qwenhost.expectations.tables import table

FILE = "models/qwen3.5.yaml"
NAME = re.compile(r"qwen[-_ ]?3\.5[-_ ](?P<size>\d+(?:\.\d+)?b(?:-a\d+b)?)", re.IGNORECASE)


def nearest_sizes(model: str) -> tuple[str, ...]:
    """Return nothing for a model that may exist, else the nearest real sizes of the family."""
    match = NAME.search(model)
    sizes: list[str] = table(FILE)["sizes"]
    if match is None or match["size"].lower() in sizes:
        return ()
    wanted = match["size"].lower()
    close = difflib.get_close_matches(wanted, sizes, n=2, cutoff=0.0)
    by_parameters = min(sizes, key=lambda size: abs(_billions(size) - _billions(wanted)))
    return tuple(dict.fromkeys([by_parameters, *close]))[:2]


def _billions(size: str) -> float:
    return float(size.split("b")[0])


def all_sizes() -> tuple[str, ...]:
    """Return the sizes of the family, as they stand in names."""
    return tuple(table(FILE)["sizes"])
