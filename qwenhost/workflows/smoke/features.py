"""What a service may or may not offer: tool calls, structured output, its prefix cache."""

from __future__ import annotations

import json
from typing import Any

from qwenhost.records.finding import Verdict
from qwenhost.workflows.smoke.prompts import fresh_tokens
from qwenhost.workflows.smoke.service import (
    ANSWER_SECONDS,
    COMPLETIONS,
    Seen,
    Service,
    Unanswered,
    judged,
    refused,
    said,
    short,
    skipped,
    text_of,
)

NOT_ENABLED = ("--enable-auto-tool-choice", "tool-call-parser")
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "current_time",
        "description": "Tells the time of day. Call it whenever somebody asks for the time.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}
NAMED = {"type": "function", "function": {"name": TOOL["function"]["name"]}}
TIME = "What time is it now? Call the tool."
TOOL_TOKENS = 64
SIDES = ("left", "right")
FEW_MORE = 16
"""Tokens after a whole block: only whole blocks are found again, and not the prompt's last token."""


def tool_call(service: Service) -> Seen:
    """Agents need calls as `tool_calls` with JSON arguments; without the right parser they come as plain text."""
    expected = "a call of current_time with JSON arguments"
    answer = service.chat(TIME, tools=[TOOL], tool_choice="auto")
    if answer.status == 400 and any(option in answer.body for option in NOT_ENABLED):
        return skipped("automatic tool choice is not enabled", said(answer))
    if answer.status != 200:
        return refused(answer, expected)
    by_itself = json.loads(answer.body)["choices"][0]
    if _calls(by_itself):
        return _judged_call(by_itself, expected)
    forced = service.answer(TIME, tools=[TOOL], tool_choice=NAMED, max_tokens=TOOL_TOKENS)
    seen = _judged_call(forced, expected)
    if seen.verdict is Verdict.FAIL:
        return seen
    return Seen(Verdict.NOTE, "called when told to, not by itself", expected, short(text_of(by_itself)))


def structured_output(service: Service) -> Seen:
    """Programs that read answers rely on the schema: one answer outside it and they stop."""
    schema = {"name": "side", "schema": {"type": "string", "enum": list(SIDES)}}
    choice = service.answer(
        service.answers[0].question, response_format={"type": "json_schema", "json_schema": schema}
    )
    text, wanted = text_of(choice), [json.dumps(side) for side in SIDES]
    return judged(text.strip() in wanted, short(text) or "no text", " or ".join(wanted))


def prefix_cache(service: Service) -> Seen:
    """Chats send their history again each turn; without the cache each turn computes it anew."""
    before = service.counts()
    enabled = before.config.get("enable_prefix_caching")
    if enabled == "False":
        return skipped("prefix caching is off", "enable_prefix_caching False")
    if enabled is None or before.block_size is None or before.prompts_hit is None:
        return Seen(Verdict.UNKNOWN, "this version does not tell of its prefix cache")
    if before.block_size + FEW_MORE >= service.context_tokens:
        return skipped("a whole block is longer than the context", f"block_size {before.block_size}")
    _send_twice(service, before.block_size + FEW_MORE)
    found = (service.counts().prompts_hit or 0) - before.prompts_hit
    return judged(found >= before.block_size, f"{found} tokens found", f"{before.block_size} tokens found")


def _send_twice(service: Service, tokens: int) -> None:
    body = service.prompt_body(fresh_tokens(tokens))
    for _ in range(2):
        answer = service.post(COMPLETIONS, body, ANSWER_SECONDS)
        if answer.status != 200:
            raise Unanswered(refused(answer, "HTTP 200"))


def _calls(choice: dict[str, Any]) -> list[dict[str, Any]]:
    return choice["message"].get("tool_calls") or []


def _judged_call(choice: dict[str, Any], expected: str) -> Seen:
    calls = [call["function"] for call in _calls(choice)]
    shown = ", ".join(f"{call['name']}({call['arguments']})" for call in calls) or "no call"
    right = [call for call in calls if call["name"] == TOOL["function"]["name"] and _is_object(call["arguments"])]
    return judged(len(right) == len(calls) > 0, short(shown), expected, short(text_of(choice)))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
