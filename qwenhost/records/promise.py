"""What a plan promised of a service; None: nothing was promised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """`context_tokens`: of one request; `sequences`: requests at the same time; `kv_tokens`: of the whole pool."""

    context_tokens: int | None = None
    sequences: int | None = None
    kv_tokens: int | None = None
    origin: str = ""


NO_PROMISE = Promise()
