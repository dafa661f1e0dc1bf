"""Which variables of NCCL and CUDA hurt, with which values and where: data/nccl.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

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


@cache
def harms() -> Mapping[str, Harm]:
    """Return variable -> what is wrong with some of its values. Raises BadData."""
    raw = table(PATH)
    refuse_unknown(PATH, raw, ("schema", "settings"))
    return {
        name: Harm(**{**row, "values": re.compile(row["values"], re.IGNORECASE)})
        for name, row in raw["settings"].items()
    }
