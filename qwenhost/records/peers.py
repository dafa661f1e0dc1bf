"""What most hosts of a fleet have alike, so that one of them can be held against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Majority:
    """The value that `hosts` of `of` hosts have."""

    value: str
    hosts: int
    of: int

    @property
    def origin(self) -> str:
        """Where the expectation comes from."""
        return f"{self.hosts} of {self.of} hosts of this run"


Peers = Mapping[str, Majority]
"""Trait, such as "driver version" -> what most have; a trait without a clear majority is left out."""
