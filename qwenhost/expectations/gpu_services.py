"""System services that are known to hold GPUs."""

from __future__ import annotations

from typing import Any

from qwenhost.expectations.tables import refuse_unknown, table

PATH = "gpu_services.yaml"


def gpu_services() -> list[dict[str, Any]]:
    """Return {"unit", "waits"} of each, in the order in which they are stopped."""
    rows = table(PATH)["services"]
    for row in rows:
        refuse_unknown(PATH, row, ("unit", "waits", "why", "source"))
    return [{"unit": str(row["unit"]), "waits": bool(row.get("waits", True))} for row in rows]
