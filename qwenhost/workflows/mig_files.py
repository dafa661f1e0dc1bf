"""Files that an inventory names: their content goes where the variables are judged, which reads nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qwenhost.expectations.declared import MIG_CONFIG
from qwenhost.records.errors import QwenhostError


def with_mig_file(raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return variables with the content of the file of qwenhost_mig_config beside its name.

    `folder` is the inventory's, from which the name counts. Raises QwenhostError for a file that cannot be read.
    """
    value = raw.get(MIG_CONFIG)
    if not isinstance(value, Mapping) or not value.get("file"):
        return dict(raw)
    path = folder / str(value["file"])
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise QwenhostError(
            f"{path}: {reason}", hint=f"{MIG_CONFIG}.file counts from the inventory's folder"
        ) from error
    return {**raw, MIG_CONFIG: {**value, "file": _shown(path), "content": content}}


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
