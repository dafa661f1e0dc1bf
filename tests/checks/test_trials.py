"""Trials against what link and memory can do."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.skus import skus
from qwenhost.expectations.trial_floors import floors
from qwenhost.facts.trials import TRIALS, refusal
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from tests.checks.conftest import of

GPU0 = {"gpu": 0, "bus_id": "0000:07:00.0"}
IDS = ("pcie.copy-rate", "memory.copy-rate", "gpu.peer-copy", "nccl.all-reduce")


def row(**figures: object) -> dict[str, object]:
    return {"gpus": [{**GPU0, **figures}]}


def pair(**figures: object) -> dict[str, object]:
    return {"gpus": [GPU0], "pairs": [{"from": 0, "to": 1, **figures}]}


CASES = [
    pytest.param("host-copy", row(to_gpu_gb_per_s=24.6, to_host_gb_per_s=25.1), "pass", id="whole link"),
    pytest.param("host-copy", row(to_gpu_gb_per_s=12.9, to_host_gb_per_s=13.1), "warn", id="half the lanes"),
    pytest.param("host-copy", row(to_gpu_gb_per_s=24.6, to_host_gb_per_s=6.2), "warn", id="one way slow"),
    pytest.param("device-memory", row(gb_per_s=1741.0, intact=True), "pass", id="memory"),
    pytest.param("device-memory", row(gb_per_s=902.0, intact=True), "warn", id="slow memory"),
    pytest.param("device-memory", row(gb_per_s=1741.0, intact=False), "fail", id="memory loses bytes"),
    pytest.param("peer-copy", pair(direct=True, gb_per_s=251.0, intact=True), "pass", id="peers"),
    pytest.param("peer-copy", pair(direct=True, gb_per_s=118.0, intact=True), "warn", id="slow peers"),
    pytest.param("peer-copy", pair(direct=True, gb_per_s=251.0, intact=False), "fail", id="writes are lost"),
    pytest.param("peer-copy", pair(direct=False), "note", id="no direct access"),
    pytest.param("peer-copy", {"gpus": [GPU0], "pairs": []}, "skip", id="no peer"),
    pytest.param("all-reduce", {"gpus": 8, "bus_gb_per_s": 231.0, "right": True}, "pass", id="all-reduce"),
    pytest.param("all-reduce", {"gpus": 8, "bus_gb_per_s": 11.0, "right": True}, "warn", id="through the host"),
    pytest.param("all-reduce", {"gpus": 8, "bus_gb_per_s": 231.0, "right": False}, "fail", id="wrong sum"),
    pytest.param("all-reduce", {"gpus": 1}, "skip", id="alone"),
    pytest.param("all-reduce", {"gpus": 8}, "unknown", id="no figure"),
]


@pytest.mark.parametrize(("trial", "result", "verdict"), CASES)
def test_verdict(healthy: Bundle, want: Expectations, trial: str, result: dict[str, object], verdict: str) -> None:
    text = json.dumps({"trial": trial, "torch": "2.11.0", **result})
    check = dict(zip((source.argv[0] for source in TRIALS), IDS, strict=True))[trial]
    bundle = replace(healthy, captures=(*healthy.captures, Capture(f"trial-{trial}", "ok", text)))
    found = of(examine(bundle, replace(want, trials=True)), check)
    assert {finding.verdict.value for finding in found} == {"fail" if result.get("right") is False else verdict}


def test_nobody_asked(healthy: Bundle, want: Expectations) -> None:
    found = [finding for finding in examine(healthy, want) if finding.check in IDS]
    assert [(f.verdict.value, f.observed) for f in found] == [("skip", "a trial: run only with --trials")] * 4


def test_a_refusal_says_why(healthy: Bundle, want: Expectations) -> None:
    told = tuple(refusal(trial, "not run: gpu0 is used by pid 4711 (VLLM::EngineCore)") for trial in TRIALS)
    bundle = replace(healthy, captures=(*healthy.captures, *told))
    found = [finding for finding in examine(bundle, replace(want, trials=True)) if finding.check in IDS]
    assert {(f.verdict.value, "pid 4711" in f.observed) for f in found} == {("skip", True)}


def test_floors_follow_the_product() -> None:
    a100, h200 = floors(skus()["a100-sxm4-80gb"]), floors(skus()["h200-sxm5"])
    assert round(a100.host_copy or 0, 1) == 20.8
    assert (h200.host_copy or 0) > 2 * (a100.host_copy or 99) - 1
    assert floors(None).host_copy is None
