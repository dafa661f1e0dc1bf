"""What a smoke test asks, and how much of it may differ."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.expectations.tables import table
from qwenhost.records.errors import USAGE, QwenhostError

FILE = "smoke.yaml"


@dataclass(frozen=True)
class Expected:
    """A question and the expression that has to be found in its answer."""

    question: str
    expect: re.Pattern[str]


def expected(question: str, expression: str) -> Expected:
    """Return a question with its compiled expression. Raises QwenhostError for a bad one."""
    try:
        return Expected(question, re.compile(expression))
    except re.error as error:
        raise QwenhostError(f"not a regular expression: {expression!r}: {error}", exit_code=USAGE) from error


def known_answers() -> tuple[Expected, ...]:
    """Return the questions of data/smoke.yaml."""
    return tuple(expected(row["question"], row["expect"]) for row in table(FILE)["answers"])


def tolerance() -> float:
    """Return the share by which measured KV tokens may differ from planned ones."""
    return float(table(FILE)["tolerance_percent"]["value"]) / 100


def most_at_once() -> int:
    """Return how many requests a burst has at most."""
    return int(table(FILE)["most_at_once"]["value"])


def gpu_memory_growth_mib() -> int:
    """Return how much more of a GPU may be held after a burst than before it."""
    return int(table(FILE)["gpu_memory_growth_mib"]["value"])
