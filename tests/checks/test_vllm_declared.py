"""Proxy and key of the service against what is declared; a switch of versions that was interrupted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qwenhost.checks.engine import examine
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import Finding, Verdict
from qwenhost.workflows.key_files import digest_of, with_key_digest
from tests.checks.conftest import of
from tests.checks.test_vllm_start import IN_PLACE, INSTALLED, PRIVATE, SERVED

PLAIN = {"address": "0.0.0.0", "port": 80, "certificate": "", "key": ""}
SECURE = {**PLAIN, "port": 443, "certificate": "/etc/ssl/a.pem", "key": "/etc/ssl/a.key"}
BLOCK = (
    "Id=basic.target\nLoadState=loaded\nActiveState=active\n\n"
    "Id=vllm-proxy.service\nLoadState={}\nActiveState={}\n"
)
RUNS = Capture("vllm-units", "ok", BLOCK.format("loaded", "active"))
FAILED = Capture("vllm-units", "ok", BLOCK.format("loaded", "failed"))
NONE = Capture("vllm-units", "ok", BLOCK.format("not-found", "inactive"))


def serving(**changes: object) -> Expectations:
    assert SERVED.serving
    return replace(SERVED, serving=replace(SERVED.serving, **changes))  # type: ignore[arg-type]


def judged(check: str, want: Expectations, *captures: Capture) -> Finding:
    (finding,) = of(examine(Bundle("host", captures), want), check)
    return finding


def written(settings: object | None) -> Capture:
    own = {} if settings is None else {"/etc/qwenhost/vllm/proxy.json": json.dumps(settings)}
    return Capture("vllm-proxy", "ok", json.dumps({"/proc/version": "x", **own}))


@pytest.mark.parametrize(
    ("wanted", "found", "unit", "verdict", "observed"),
    [
        ({}, None, NONE, Verdict.SKIP, "no proxy is declared"),
        (PLAIN, PLAIN, RUNS, Verdict.PASS, "as declared, active"),
        (PLAIN, PLAIN, FAILED, Verdict.FAIL, "as declared, failed"),
        (PLAIN, None, NONE, Verdict.FAIL, "not configured, inactive"),
        (SECURE, PLAIN, RUNS, Verdict.FAIL, "http://0.0.0.0:80, active"),
        ({}, SECURE, RUNS, Verdict.FAIL, "https://0.0.0.0:443, active"),
    ],
)
def test_proxy(wanted: object, found: object, unit: Capture, verdict: Verdict, observed: str) -> None:
    finding = judged("vllm.proxy", serving(proxy=wanted), *IN_PLACE[:-1], written(found), unit)
    assert (finding.verdict, observed in finding.observed) == (verdict, True), finding


KEY = Capture("vllm-key", "ok", digest_of("secret"))


@pytest.mark.parametrize(
    ("declared", "held", "verdict"),
    [
        ("secret", KEY, Verdict.PASS),
        ("changed", KEY, Verdict.FAIL),
        ("secret", replace(KEY, status="denied", text=""), Verdict.UNKNOWN),
        ("secret", replace(KEY, text="secret"), Verdict.UNKNOWN),
        ("", KEY, Verdict.SKIP),
    ],
)
def test_key(declared: str, held: Capture, verdict: Verdict) -> None:
    want = serving(api_key_digest=digest_of(declared) if declared else "")
    finding = judged("vllm.api-key", want, *IN_PLACE, held)
    assert finding.verdict is verdict
    assert "secret" not in str(finding)


@pytest.mark.parametrize(
    ("edits", "alarms"),
    [
        ({}, {}),
        ({"600 root api_key": "644 root api_key"}, {"api_key": "644 root"}),
        ({"600 root api_key": "600 ops api_key"}, {"api_key": "600 ops"}),
        ({"600 root chat.env\n": ""}, {"chat.env": "not there"}),
    ],
)
def test_private_files(edits: dict[str, str], alarms: dict[str, str]) -> None:
    text = PRIVATE.text
    for old, new in edits.items():
        text = text.replace(old, new)
    found = [replace(PRIVATE, text=text) if each is PRIVATE else each for each in IN_PLACE]
    findings = of(examine(Bundle("host", tuple(found)), serving()), "vllm.private-files")
    assert {f.subject: f.observed for f in findings if f.verdict is Verdict.FAIL} == alarms
    assert len(findings) == 2


def test_the_digest_of_a_declared_key_stands_beside_its_file(tmp_path: Path) -> None:
    raw = {"qwenhost_vllm": {"api_key_file": "key"}}
    (tmp_path / "key").write_text("secret\n\n")
    assert with_key_digest(raw, tmp_path)["qwenhost_vllm"]["api_key_file"]["digest"] == KEY.text
    (tmp_path / "key").write_text("$ANSIBLE_VAULT;1.1;AES256\n3061\n")
    assert with_key_digest(raw, tmp_path)["qwenhost_vllm"]["api_key_file"]["digest"] == ""
    with pytest.raises(QwenhostError, match="nowhere: No such file"):
        with_key_digest({"qwenhost_vllm": {"api_key_file": "nowhere"}}, tmp_path)


def test_an_interrupted_switch_is_told() -> None:
    mark = {"/var/lib/qwenhost/vllm/unproven": "0.32.0 in place of 0.31.0\n"}
    half = replace(INSTALLED, text=json.dumps({**json.loads(INSTALLED.text), **mark}))
    findings = of(examine(Bundle("host", (half,)), SERVED), "vllm.installed")
    assert [(f.subject, f.verdict) for f in findings] == [("host", Verdict.PASS), ("switch", Verdict.FAIL)]
