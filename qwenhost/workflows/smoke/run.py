"""Ask all questions, and make a finding of what each showed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from qwenhost.records.finding import NO_REMEDY, Finding, Verdict, by_hand
from qwenhost.workflows.smoke.catalogue import HEALTH, QUESTIONS, Question
from qwenhost.workflows.smoke.service import Seen, Service, Unanswered

LOOK = by_hand("Read the last lines of `journalctl -u 'vllm@*'` on the host.")

Tell = Callable[[Finding], None]


def smoke(service: Service, subject: str, *, full: bool = False, tell: Tell | None = None) -> tuple[Finding, ...]:
    """Return one finding per question; `tell` gets each as soon as it is there.

    Without `full` only what takes seconds and disturbs nobody is asked.
    """
    findings = []
    for finding in _findings(service, subject, full):
        findings.append(finding)
        if tell:
            tell(finding)
    return tuple(findings)


def _findings(service: Service, subject: str, full: bool) -> Iterator[Finding]:
    health = _seen(HEALTH, service)
    yield _finding(HEALTH, subject, health)
    answers = health.verdict is not Verdict.FAIL or bool(health.evidence)
    for question in QUESTIONS:
        if full or not question.full:
            yield _finding(question, subject, _seen(question, service)) if answers else _unasked(question, subject)


def _seen(question: Question, service: Service) -> Seen:
    """No answer, and an answer of an unknown form, are failures that were observed."""
    try:
        return question.look(service)
    except Unanswered as refusal:
        return refusal.seen
    except OSError as error:
        return Seen(Verdict.FAIL, f"no answer: {error or type(error).__name__}", "an answer")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        return Seen(Verdict.FAIL, f"answer of an unknown form: {type(error).__name__}: {error}", "an answer")


def _finding(question: Question, subject: str, seen: Seen) -> Finding:
    bad = seen.verdict is Verdict.FAIL
    return Finding(
        question.id,
        subject,
        seen.verdict,
        seen.observed,
        seen.expected,
        question.why,
        LOOK if bad and seen.remedy is NO_REMEDY else seen.remedy,
        evidence=seen.evidence,
        source="http" if seen.verdict is Verdict.UNKNOWN else "",
    )


def _unasked(question: Question, subject: str) -> Finding:
    return Finding(
        question.id, subject, Verdict.UNKNOWN, "not asked", why=question.why, source="http", cause=HEALTH.id
    )
