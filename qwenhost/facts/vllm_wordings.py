"""The table of what a vLLM service says in its log, read once from data/vllm/wordings.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml

from qwenhost.records.errors import BadData

FILE = "vllm/wordings.yaml"
SCHEMA = 1

Effect = Literal["ready", "failed", "died", "stopped", "cause", "wrapper", "sign", "symptom"]


@dataclass(frozen=True)
class Wording:
    """One row of the table, whose head explains the fields."""

    name: str
    effect: Effect
    says: tuple[re.Pattern[str], ...]
    seen_in: str
    source: str
    check: str = ""
    observed: str = ""
    expected: str = ""


@cache
def wordings() -> tuple[Wording, ...]:
    """Return all rows; raises BadData for a row that is not understood."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = resources.files("qwenhost.data").joinpath(FILE).read_text(encoding="utf-8")
    raw = yaml.load(text, Loader=loader)  # the table is long, and the loader in C ten times as fast
    if raw.get("schema") != SCHEMA:
        raise BadData(f"data/{FILE}: no `schema: {SCHEMA}`")
    return tuple(_wording(row) for row in raw["wordings"])


def _wording(row: Mapping[str, Any]) -> Wording:
    try:
        says = tuple(re.compile(text, re.MULTILINE) for text in row["says"])
        return Wording(**{**row, "says": says})
    except (KeyError, TypeError, re.error) as error:
        raise BadData(f"data/{FILE}: {row.get('name')}: {error}") from error
