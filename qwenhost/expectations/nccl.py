"""Which variables of NCCL and CUDA hurt, and what NCCL's warnings mean: data/nccl.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from qwenhost.expectations.tables import refuse_unknown, table

PATH = "nccl.yaml"

Hurts = Literal["always", "nvlink", "rdma", "never"]


@dataclass(frozen=True)
class Harm:
    """Values of one variable that do harm; the head of the table explains the fields."""

    values: re.Pattern[str]
    hurts: Hurts
    effect: str
    source: str


@dataclass(frozen=True)
class Warned:
    """One kind of warning; `told_by`: the check that tells its story, empty where it is told with the others."""

    says: re.Pattern[str]
    observed: str
    source: str
    told_by: str = ""
    remedy: str = ""

    def told(self, line: str) -> str | None:
        """Return what a warning of this kind says in short, None for one of another kind."""
        found = self.says.search(line)
        return self.observed.format_map({"what": "", **_groups(found)}).strip() if found else None


def _groups(found: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in found.groupdict().items() if value}


@cache
def harms() -> Mapping[str, Harm]:
    """Return variable -> what is wrong with some of its values. Raises BadData."""
    rows = _table()["settings"]
    return {
        name: Harm(**{**row, "values": re.compile(row["values"], re.IGNORECASE)}) for name, row in rows.items()
    }


@cache
def warned() -> tuple[Warned, ...]:
    """Return all kinds of warnings that are known. Raises BadData."""
    return tuple(Warned(**{**row, "says": re.compile(row["says"])}) for row in _table()["warnings"])


def _table() -> Mapping[str, Any]:
    raw = table(PATH)
    refuse_unknown(PATH, raw, ("schema", "settings", "warnings"))
    return raw
