"""Figures for ports of HCAs and for GPUDirect RDMA: data/rdma.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from qwenhost.expectations.tables import figures

PATH = "rdma.yaml"


@dataclass(frozen=True)
class RdmaLimits:
    """The table's rows by name; their units are in their names there."""

    drops_logged: int
    drops_counted: int
    starting_seconds: int
    nccl_knows_peermem: str


@cache
def rdma_limits() -> RdmaLimits:
    """Return all rows. Raises BadData."""
    return RdmaLimits(**figures(PATH, RdmaLimits.__dataclass_fields__))
