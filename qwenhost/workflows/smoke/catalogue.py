"""All questions of the smoke test, in the order in which they are asked. Their ids are a public contract."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from qwenhost.workflows.smoke import bad_input, capacity, chats, features, gpu_memory, reached, streams
from qwenhost.workflows.smoke.service import Seen, Service


@dataclass(frozen=True)
class Question:
    """A question by its id. `full`: it loads the service or takes long, so it is asked only when wanted."""

    id: str
    look: Callable[[Service], Seen]
    full: bool = False

    @property
    def why(self) -> str:
        """Why an operator cares."""
        return inspect.getdoc(self.look) or ""


HEALTH = Question("smoke.health", reached.health)
QUESTIONS = (
    Question("smoke.served-name", reached.served_name),
    Question("smoke.completion", chats.completion),
    Question("smoke.streaming", streams.streaming),
    Question("smoke.thinking", chats.thinking),
    Question("smoke.length", chats.length),
    Question("smoke.key-refused", reached.key_refused),
    Question("smoke.dev-mode", reached.dev_mode),
    Question("smoke.metrics", capacity.metrics),
    Question("smoke.as-planned", capacity.as_planned),
    Question("smoke.unknown-path", reached.unknown_path, full=True),
    Question("smoke.content", chats.content, full=True),
    Question("smoke.stop", chats.stop, full=True),
    Question("smoke.structured-output", features.structured_output, full=True),
    Question("smoke.tool-call", features.tool_call, full=True),
    Question("smoke.bad-input", bad_input.bad_input, full=True),
    Question("smoke.too-long", capacity.too_long, full=True),
    Question("smoke.context", capacity.longest, full=True),
    Question("smoke.prefix-cache", features.prefix_cache, full=True),
    Question("smoke.burst", capacity.burst, full=True),
    Question("smoke.at-rest", capacity.at_rest, full=True),
    Question("smoke.gpu-memory", gpu_memory.gpu_memory, full=True),
)
"""After the question of health, which all others depend on."""
