"""Is bad input refused, and does the service live on?"""

from __future__ import annotations

import json
from collections.abc import Mapping

from qwenhost.workflows.smoke.service import CHAT, Seen, Service, judged, text_of

BROKEN_JSON = "{not json"
CHANGES: Mapping[str, Mapping[str, object]] = {
    "no message": {"messages": []},
    "messages that are no list": {"messages": "hello"},
    "a negative temperature": {"temperature": -1},
    "no token to write": {"max_tokens": 0},
    "more tokens than the context": {"max_tokens": 10**9},
    "a tool without a function": {"tools": [{"type": "function"}]},
    "a broken schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": 1}}},
    "an unknown model": {"model": "no-such-model"},
}
"""What is wrong -> the fields of a chat that make it so."""


def bad_input(service: Service) -> Seen:
    """A client's mistake must be its own: 4xx for it, and the next request of somebody else is answered."""
    sound = json.loads(service.chat_body(service.answers[0].question))
    bodies = {"broken JSON": BROKEN_JSON, **{name: json.dumps(sound | change) for name, change in CHANGES.items()}}
    got = {name: service.post(CHAT, body).status for name, body in bodies.items()}
    wrong = [f"{name}: HTTP {status}" for name, status in got.items() if not 400 <= status < 500]
    expected = "HTTP 4xx for each, and the service lives"
    if wrong:
        return judged(False, ", ".join(wrong), expected)
    health = service.get("/health", {}).status
    if health != 200:
        return judged(False, f"afterwards /health: HTTP {health}", expected)
    alive = bool(text_of(service.answer(service.answers[0].question)))
    return judged(alive, f"{len(got)} refused" if alive else "afterwards no text", expected)
