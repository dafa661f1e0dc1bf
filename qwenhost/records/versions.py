"""Versions of drivers and packages, compared number by number."""

from __future__ import annotations

import re

PATTERN = r"\d{3}(?:\.\d+){1,2}"
"""A driver version as it stands in any of the tools' outputs."""


def parts(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without those of a local build: 580.95.05 -> (580, 95, 5).

    Raises ValueError for a text without any.
    """
    numbers = tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0]))
    if not numbers:
        raise ValueError(f"not a version: {version!r}")
    return numbers


def older(version: str, floor: str) -> bool:
    """Tell whether `version` is older than `floor`."""
    return parts(version) < parts(floor)


def agree(one: str, two: str) -> bool:
    """Tell whether two versions name the same driver; the library's own line may leave out the last part."""
    shorter, longer = sorted((parts(one), parts(two)), key=len)
    return longer[: len(shorter)] == shorter


def branch(version: str) -> str:
    """Return a driver's branch, its first number: 580.95.05 -> "580"."""
    return version.partition(".")[0]
