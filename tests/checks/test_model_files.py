"""The model's files against those that were verified."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.finding import Finding, Verdict
from tests.checks.conftest import of
from tests.checks.test_vllm_start import FILES, INSTALLED, LOOK, SERVED, VERIFIED

ANOTHER = replace(VERIFIED, text=VERIFIED.text.replace("/models/q", "/models/p"))
GARBLED = replace(VERIFIED, text=json.dumps({"/proc/version": "x", "/var/lib/qwenhost/models/q.json": "{"}))
NONE = replace(VERIFIED, text='{"/proc/version": "x"}')
GONE = replace(FILES, status="failed", text="", error="exit code 1: find: '/models/q': No such file or directory")
SLOW = replace(FILES, status="timeout", text="", error="no answer within 10 s")


def judged(*captures: Capture) -> list[Finding]:
    return of(examine(Bundle("host", (INSTALLED, *captures)), SERVED), "vllm.model-files")


def changed(old: str, new: str) -> Capture:
    assert old in FILES.text
    return replace(FILES, text=FILES.text.replace(old, new))


@pytest.mark.parametrize(
    ("files", "verified", "verdict", "observed"),
    [
        (FILES, VERIFIED, Verdict.PASS, f"1 files as verified {LOOK['at']}"),
        (changed("96 ", "90 "), VERIFIED, Verdict.FAIL, "90 bytes"),
        (changed("176472", "176473"), VERIFIED, Verdict.FAIL, "changed 2025-12-03T02:46:40Z"),
        (changed("w.safe", "v.safe"), VERIFIED, Verdict.FAIL, "not there"),
        (replace(FILES, text=FILES.text + "7 1.0 README.md\n"), VERIFIED, Verdict.PASS, "1 files as verified"),
        (GONE, VERIFIED, Verdict.FAIL, "not there"),
        (FILES, NONE, Verdict.UNKNOWN, "never verified"),
        (FILES, ANOTHER, Verdict.UNKNOWN, "never verified"),
        (FILES, GARBLED, Verdict.UNKNOWN, "never verified"),
        (SLOW, VERIFIED, Verdict.UNKNOWN, ""),
        (replace(FILES, text="total 96\n"), VERIFIED, Verdict.UNKNOWN, ""),
    ],
)
def test_files(files: Capture, verified: Capture, verdict: Verdict, observed: str) -> None:
    (finding,) = judged(files, verified)
    assert (finding.verdict, observed in finding.observed) == (verdict, True), finding
    if verdict is not Verdict.PASS:
        assert finding.remedy.role == "vllm_service"
