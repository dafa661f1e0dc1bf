"""The smoke test against a server that behaves like vLLM, and then misbehaves: one fault, one failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from qwenhost.cli.smoke import command
from qwenhost.expectations.smoke_tables import expected, known_answers
from qwenhost.lab.tiny_model import ANSWERS
from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import Finding, Verdict
from qwenhost.records.promise import Promise
from qwenhost.workflows.promised import promise_in
from qwenhost.workflows.requests import Response, UrlFetch
from qwenhost.workflows.smoke.catalogue import HEALTH, QUESTIONS
from qwenhost.workflows.smoke.run import smoke
from qwenhost.workflows.smoke.service import Service
from tests.workflows.smoke.standin import CONTEXT, KEY, KV_TOKENS, MODEL, VllmStandIn, serving

PROMISE = Promise(CONTEXT, 12, KV_TOKENS, "plan")
IDS = [HEALTH.id, *(question.id for question in QUESTIONS)]


def holding(*mib: int) -> Callable[[], dict[str, int]]:
    """What the service holds of GPU 0, look by look; the last figure stays."""
    figures = list(mib or (70000,))
    return lambda: {"gpu0": figures.pop(0) if len(figures) > 1 else figures[0]}


def ask(*faults: str, full: bool = True, **changes: Any) -> tuple[Finding, ...]:
    options = {
        "key": KEY,
        "name": MODEL,
        "promise": PROMISE,
        "patience_seconds": 0,
        "gpu_mib": holding(),
    } | changes
    with serving(VllmStandIn(*faults)) as url:
        return smoke(Service(UrlFetch(url), **options), url, full=full)


def verdicts(findings: tuple[Finding, ...]) -> dict[str, str]:
    return {finding.check.removeprefix("smoke."): finding.verdict.value for finding in findings}


def by_id(findings: tuple[Finding, ...], name: str) -> Finding:
    return next(finding for finding in findings if finding.check == f"smoke.{name}")


def test_sound_service_passes_everything() -> None:
    findings = ask()
    assert set(verdicts(findings).values()) == {"pass"}
    assert [finding.check for finding in findings] == IDS
    assert len(set(IDS)) == len(IDS)
    assert all(finding.why for finding in findings)


def test_quick_one_asks_nothing_that_loads_the_service() -> None:
    with serving(VllmStandIn()) as url:
        service = Service(UrlFetch(url), KEY, MODEL, promise=PROMISE)
        told: list[Finding] = []
        findings = smoke(service, url, tell=told.append)
    assert told == list(findings)
    assert {"smoke.burst", "smoke.context", "smoke.bad-input"}.isdisjoint(f.check for f in findings)
    assert set(verdicts(findings).values()) == {"pass"}


@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        ("unhealthy", {"health", "bad-input"}),
        ("dies-of-bad-input", {"bad-input"}),
        ("babbles", {"content"}),
        ("no-done", {"streaming"}),
        ("garbled", {"streaming"}),
        ("no-role", {"streaming"}),
        ("no-finish", {"streaming"}),
        ("no-usage", {"streaming"}),
        ("shuffled-events", {"streaming"}),
        ("shuffled-text", {"streaming"}),
        ("no-parser", {"thinking"}),
        ("always-thinks", {"thinking"}),
        ("no-limit", {"length"}),
        ("open", {"key-refused"}),
        ("any-key", {"key-refused"}),
        ("dev-mode", {"dev-mode"}),
        ("no-cache-info", {"metrics"}),
        ("catch-all", {"unknown-path"}),
        ("runs-on", {"stop"}),
        ("no-grammar", {"structured-output"}),
        ("plain-calls", {"tool-call"}),
        ("broken-calls", {"tool-call"}),
        ("crashes-on-bad-input", {"bad-input"}),
        ("dies-of-length", {"too-long"}),
        ("takes-any-length", {"too-long"}),
        ("refuses-long", {"context"}),
        ("cold-cache", {"prefix-cache"}),
        ("overloaded", {"burst"}),
        ("cuts-bursts", {"burst"}),
        ("stuck", {"at-rest"}),
        ("leaking", {"at-rest"}),
        ("small-pool", {"as-planned"}),
    ],
)
def test_one_fault_fails_its_own_question(fault: str, failing: set[str]) -> None:
    findings = ask(fault)
    failed = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert {finding.check.removeprefix("smoke.") for finding in failed} == failing
    assert all(finding.remedy.text for finding in failed)


@pytest.mark.parametrize("fault", ["wrong", "silent", "failing", "unnamed", "renamed"])
def test_service_that_answers_nothing_right_fails_at_its_completion(fault: str) -> None:
    found = verdicts(ask(fault))
    assert found["completion"] == "fail"
    assert (found["served-name"] == "fail") is (fault in ("unnamed", "renamed"))
    assert found["health"] == "pass"


@pytest.mark.parametrize(
    ("fault", "name", "verdict", "observed"),
    [
        ("no-tools", "tool-call", "skip", "automatic tool choice is not enabled"),
        ("obeys-only", "tool-call", "note", "called when told to, not by itself"),
        ("prefix-off", "prefix-cache", "skip", "prefix caching is off"),
        ("large-pool", "as-planned", "note", "11000 KV tokens (+10.0%)"),
        ("old", "as-planned", "unknown", "this version publishes no kv_cache_size_tokens"),
        ("never-thinks", "thinking", "warn", "no thoughts though enable_thinking is true"),
        ("short-context", "context", "fail", "max_model_len 128"),
        ("no-metrics", "at-rest", "fail", "no metrics of vLLM"),
    ],
)
def test_what_is_seen_decides_the_verdict(fault: str, name: str, verdict: str, observed: str) -> None:
    finding = by_id(ask(fault), name)
    assert (finding.verdict.value, finding.observed) == (verdict, observed)


def test_without_a_plan_nothing_is_compared_and_the_burst_is_small() -> None:
    findings = ask(promise=Promise(), name="")
    assert by_id(findings, "as-planned").verdict is Verdict.SKIP
    assert by_id(findings, "burst").observed.startswith("16 of 16 answered")
    assert by_id(findings, "context").observed.startswith("255 tokens read")


@pytest.mark.parametrize(
    ("held", "verdict", "observed"),
    [
        ((70000, 70000), "pass", "gpu0 +0 MiB"),
        ((70000, 70256), "pass", "gpu0 +256 MiB"),
        ((70000, 69000), "pass", "gpu0 -1000 MiB"),
        ((70000, 70300), "fail", "gpu0 70000 to 70300 MiB"),
    ],
)
def test_memory_that_a_burst_leaves_taken_is_a_leak(held: tuple[int, ...], verdict: str, observed: str) -> None:
    finding = by_id(ask(gpu_mib=holding(*held)), "gpu-memory")
    assert (finding.verdict.value, finding.observed) == (verdict, observed)


def test_a_url_alone_does_not_tell_gpu_memory() -> None:
    finding = by_id(ask(gpu_mib=None), "gpu-memory")
    assert finding.verdict is Verdict.SKIP and "not looked at" in finding.observed


def test_wrong_key_is_told_as_such() -> None:
    findings = ask(key="wrong", full=False)
    assert verdicts(findings)["key-refused"] == "pass"
    refused = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    assert {"smoke.served-name", "smoke.completion", "smoke.streaming"} <= {finding.check for finding in refused}
    assert all("key" in finding.remedy.text for finding in refused)


def test_unreachable_service_fails_once_and_leaves_the_rest_unknown() -> None:
    findings = smoke(Service(UrlFetch("http://127.0.0.1:1"), KEY, MODEL), "x")
    assert findings[0].verdict is Verdict.FAIL
    assert {finding.verdict for finding in findings[1:]} == {Verdict.UNKNOWN}
    assert {finding.cause for finding in findings[1:]} == {HEALTH.id}


class HeldBack(UrlFetch):
    """A proxy that collects a stream before it passes it on."""

    def __call__(self, *request: Any) -> Response:
        return replace(super().__call__(*request), first_seconds=2.0, seconds=2.01)


def test_stream_that_comes_at_once_is_a_warning() -> None:
    with serving(VllmStandIn()) as url:
        finding = by_id(smoke(Service(HeldBack(url), KEY, MODEL), url), "streaming")
    assert finding.verdict is Verdict.WARN
    assert "proxy_buffering off" in finding.remedy.text


def test_the_labs_model_knows_every_answer() -> None:
    known = dict(ANSWERS)
    assert all(one.expect.search(known[one.question]) for one in known_answers())


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8000", "http://", "http://h:port", ""])
def test_bad_url_is_named(url: str) -> None:
    with pytest.raises(QwenhostError, match="not a base URL"):
        UrlFetch(url)


def test_bad_expression_is_named() -> None:
    with pytest.raises(QwenhostError, match="not a regular expression"):
        expected("?", "(")


PLAN = {"chosen": {"args": ["--max-model-len", "256"], "max_num_seqs": 8, "kv_tokens": 10000}}


def test_command_holds_a_service_to_a_plan(tmp_path: Path) -> None:
    key, plan, junit = tmp_path / "key", tmp_path / "plan.json", tmp_path / "smoke.xml"
    key.write_text(KEY + "\n")
    plan.write_text(json.dumps(PLAN))
    told = ("--api-key-file", str(key), "--plan", str(plan), "--full", "--junit", str(junit))
    with serving(VllmStandIn()) as url:
        done = CliRunner().invoke(command, [url, *told], standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 0)
    assert "8 of 8 answered" in done.output
    assert f'tests="{len(IDS)}" failures="0"' in junit.read_text().replace("  ", " ")


def test_command_fails_with_the_service(tmp_path: Path) -> None:
    with serving(VllmStandIn("open")) as url:
        done = CliRunner().invoke(command, [url, "--json"], standalone_mode=False)
    assert done.return_value == 1
    (report,) = json.loads(done.output)["hosts"]
    assert report["summary"]["fail"] == 1


@pytest.mark.parametrize("content", ["{", "{}", '{"chosen": null}', '{"chosen": {"args": []}}'])
def test_plan_that_does_not_fit_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    with pytest.raises(QwenhostError, match="not a plan that fits"):
        promise_in(path)


@pytest.mark.parametrize(
    "arguments", [[], ["a", "b"], ["http://h", "--question", "x"], ["http://h", "--json", "--junit", "-"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert isinstance(done.exception, QwenhostError)
    assert done.exception.exit_code == 2
