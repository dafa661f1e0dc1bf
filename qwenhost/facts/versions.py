"""Driver versions, compared part by part."""

from __future__ import annotations

import re

PATTERN = r"\d{3}(?:\.\d+){1,2}"
"""A driver version as it stands in any of the tools' outputs."""


def parts(version: str) -> tuple[int, ...]:
    """Return the parts of a version as numbers; raises ValueError for anything else."""
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise ValueError(f"not a version: {version!r}")
    return tuple(int(part) for part in version.split("."))


def older(version: str, floor: str) -> bool:
    """Tell whether `version` is older than `floor`."""
    return parts(version) < parts(floor)


def agree(one: str, two: str) -> bool:
    """Tell whether two versions name the same driver; the library's own line may leave out the last part."""
    shorter, longer = sorted((parts(one), parts(two)), key=len)
    return longer[: len(shorter)] == shorter
