"""What can be told of a check without a host: for `qwenhost explain`, `qwenhost checks` and docs/checks.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.records.finding import Remedy
from qwenhost.records.source import Source


@dataclass(frozen=True)
class Reading:
    """A source that is asked on a host, and where in its answer the values stand that the check uses."""

    source: Source
    look_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class Threshold:
    """A figure of the product: value -> the products that have it."""

    name: str
    values: Mapping[str, tuple[str, ...]]
    origin: str


@dataclass(frozen=True)
class Explanation:
    """A check with everything that feeds it.

    `recognised`: forms that are not asked for, only read from files. `declared`: what of the inventory or profile
    it is held to. `data`: data files with further figures, each with its source there.
    """

    id: str
    why: str
    remedy: Remedy
    consequence_of: tuple[str, ...]
    readings: tuple[Reading, ...]
    recognised: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    declared: tuple[str, ...]
    data: tuple[str, ...]

    @property
    def question(self) -> str:
        """The first line of the reason: what holds when the check passes."""
        return self.why.partition("\n")[0]
