"""Prompts of exact length: token numbers instead of text, which every vocabulary of the family has."""

from __future__ import annotations

import random

FIRST, LAST = 10, 999
"""Plain text pieces in each vocabulary; the special tokens stand at its end."""


def fresh_tokens(count: int) -> list[int]:
    """Return tokens that no cache has seen before."""
    return random.SystemRandom().choices(range(FIRST, LAST + 1), k=count)
