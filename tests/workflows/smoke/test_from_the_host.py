"""The same questions, sent by the host-side act: one round trip for a whole burst."""

from __future__ import annotations

from qwenhost.hands import loopback
from qwenhost.records.finding import Verdict
from qwenhost.workflows.requests import Response
from qwenhost.workflows.served import HostFetch
from qwenhost.workflows.smoke.run import smoke
from qwenhost.workflows.smoke.service import Service
from tests.workflows.smoke.standin import KEY, MODEL, VllmStandIn, serving


def test_sound_service_passes_everything() -> None:
    acts: list[dict[str, object]] = []

    def send(request: dict[str, object]) -> dict[str, object]:
        acts.append(request)
        return loopback.run(request)

    with serving(VllmStandIn()) as url:
        findings = smoke(Service(HostFetch(url, send), KEY, MODEL, patience_seconds=0), "vllm@main", full=True)
    assert {finding.verdict for finding in findings} == {Verdict.PASS, Verdict.SKIP}
    assert sum("bodies" in act for act in acts) == 1


def test_requests_that_nobody_answers_stand_in_their_place() -> None:
    fetch = HostFetch("http://127.0.0.1:1", loopback.run)
    answers = fetch.burst("/v1/completions", {}, ["{}", "{}"], 5.0)
    assert [type(answer) for answer in answers] == [OSError, OSError]


def test_times_of_an_answer_are_those_on_the_host() -> None:
    with serving(VllmStandIn()) as url:
        answer = HostFetch(url, loopback.run)("GET", "/health", {}, "", 5.0)
    assert isinstance(answer, Response)
    assert 0 < answer.first_seconds <= answer.seconds
