"""What to advise when advice did not help, from data/escalation.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from qwenhost.expectations.tables import refuse_unknown, table
from qwenhost.records.errors import BadData
from qwenhost.records.finding import Remedy

PATH = "escalation.yaml"

_KEYS = (
    "schema",
    "source",
    "reset_tried_after_runs",
    "reset_tried_after_hours",
    "forget_unseen_after_days",
    "steps",
    "checks",
)


@dataclass(frozen=True)
class Escalation:
    """`steps` in order, each with its remedy (None: the check's own); `first`: check -> its first step."""

    steps: Mapping[str, Remedy | None]
    first: Mapping[str, str]
    reset_runs: int
    reset_hours: float
    forget_days: float

    def after(self, step: str) -> str:
        """Return the next step; the last one stays."""
        names = list(self.steps)
        return names[min(names.index(step) + 1, len(names) - 1)]


@cache
def escalation() -> Escalation:
    """Return the table; raises BadData."""
    raw = table(PATH)
    refuse_unknown(PATH, raw, _KEYS)
    steps = {name: Remedy(row["remedy"], text=row["text"]) if row else None for name, row in raw["steps"].items()}
    strangers = sorted(set(raw["checks"].values()) - set(steps))
    if strangers:
        raise BadData(f"data/{PATH}: no step {strangers[0]!r}")
    return Escalation(
        steps=steps,
        first=raw["checks"],
        reset_runs=raw["reset_tried_after_runs"],
        reset_hours=raw["reset_tried_after_hours"],
        forget_days=raw["forget_unseen_after_days"],
    )
