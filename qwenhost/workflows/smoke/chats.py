"""Does the model answer, and end where it is told to?"""

from __future__ import annotations

from typing import Any

from qwenhost.records.finding import Verdict, by_hand
from qwenhost.workflows.smoke.service import Seen, Service, judged, short, skipped, text_of

SEPARATE = by_hand("Start vLLM with --reasoning-parser qwen3.")
CLOSING_TAG = "</think>"
FEW_TOKENS = 3


def completion(service: Service) -> Seen:
    """Health can answer while requests fail; only a right answer shows that it serves."""
    first = service.answers[0]
    choice = service.answer(first.question)
    text, expected = text_of(choice), f"/{first.expect.pattern}/"
    return judged(
        bool(first.expect.search(text)), short(text) or "no text", expected, f"{choice['finish_reason']}: {text}"
    )


def content(service: Service) -> Seen:
    """Broken weights or kernels give fluent nonsense, so several answers are held against known ones."""
    texts = {one: text_of(service.answer(one.question)) for one in service.answers}
    wrong = [f"{one.question} {short(text, 60)}" for one, text in texts.items() if not one.expect.search(text)]
    observed = f"{len(texts) - len(wrong)} of {len(texts)} answers are right"
    return judged(not wrong, observed, "all answers are right", "; ".join(wrong))


def thinking(service: Service) -> Seen:
    """Clients show `content` to people: thoughts that stand in it, or an empty answer, are seen by all of them."""
    plain = service.answer(service.answers[0].question)
    told = service.answer(service.answers[0].question, chat_template_kwargs={"enable_thinking": True})
    expected = "thoughts apart from the answer when asked for, none otherwise"
    if _thoughts(plain) or CLOSING_TAG in text_of(plain):
        return judged(False, "it thinks though enable_thinking is false", expected, short(_thoughts(plain)))
    if CLOSING_TAG in text_of(told):
        return judged(False, "thoughts stand in the answer", expected, short(text_of(told)), SEPARATE)
    if not _thoughts(told):
        return Seen(Verdict.WARN, "no thoughts though enable_thinking is true", expected, short(text_of(told)))
    unfinished = told["finish_reason"] == "length"
    return judged(unfinished or bool(text_of(told)), "apart", expected, short(_thoughts(told)))


def stop(service: Service) -> Seen:
    """Agents cut answers with stop strings; text that runs on past one breaks them."""
    question = service.answers[0].question
    whole = text_of(service.answer(question))
    words = whole.split()
    if len(words) < 2:
        return skipped("the answer has no second word to stop at", whole)
    word = words[len(words) // 2]
    choice = service.answer(question, stop=[word])
    cut, expected = text_of(choice), f"stopped before {word!r}"
    ended = choice["finish_reason"] == "stop" and word not in cut and len(cut) < len(whole)
    return judged(ended, f"{choice['finish_reason']}: {short(cut)}", expected, short(whole))


def length(service: Service) -> Seen:
    """A limit that is not kept lets one request hold its place for the whole context."""
    choice = service.answer(service.answers[0].question, max_tokens=FEW_TOKENS, ignore_eos=True)
    tokens = choice["usage"].get("completion_tokens")
    observed = f"{choice['finish_reason']} after {tokens} tokens"
    expected = f"length after {FEW_TOKENS} tokens"
    return judged(observed == expected, observed, expected)


def _thoughts(choice: dict[str, Any]) -> str:
    """Return the thoughts; the field's name changed with vLLM 0.12."""
    message = choice["message"]
    return str(message.get("reasoning") or message.get("reasoning_content") or "")
