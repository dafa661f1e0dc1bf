"""The textfile as a strict reader of the format takes it."""

from __future__ import annotations

import re

from qwenhost.records.bundle import Bundle
from qwenhost.records.finding import Finding, HostReport, Verdict
from qwenhost.reports import prometheus

NAME = r"[a-z][a-z0-9_]*"
LABEL = rf'{NAME}="(?:[^"\\\n]|\\\\|\\n|\\")*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?[0-9.e+]+)")

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(*reports: HostReport) -> Samples:
    """Parse the file; refuses unknown lines, metrics without HELP and TYPE, and samples given twice."""
    text = prometheus.render(reports)
    assert text.endswith("\n")
    declared: list[str] = []
    found: Samples = {}
    for line in text.splitlines():
        if line.startswith("# "):
            declared.append(" ".join(line.split()[1:3]))
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        assert {f"HELP {sample[1]}", f"TYPE {sample[1]}"} <= set(declared)
        labels = {
            (name, _plain(value)) for name, value in re.findall(rf'({NAME})="((?:\\.|[^"])*)"', sample[2] or "")
        }
        key = (sample[1], frozenset(labels))
        assert key not in found
        found[key] = float(sample[3])
    assert len(declared) == len(set(declared))
    return found


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", lambda mark: {"n": "\n"}.get(mark[1], mark[1]), value)


def test_each_check_and_subject_has_its_worst_verdict_once() -> None:
    twice = (Finding("a.b", "gpu3", Verdict.WARN), Finding("a.b", "gpu3", Verdict.FAIL))
    told = samples(HostReport("lab1", "", (*twice, Finding("a.b", "gpu4", Verdict.PASS))))
    verdicts = {dict(labels)["subject"]: dict(labels) for name, labels in told if name == "qwenhost_check_verdict"}
    assert verdicts["gpu3"] == {"host": "lab1", "check": "a.b", "subject": "gpu3", "verdict": "fail"}
    assert verdicts["gpu4"]["verdict"] == "pass"
    counts = frozenset({("host", "lab1"), ("verdict", "fail")})
    assert told["qwenhost_findings", counts] == 1


def test_labels_are_escaped() -> None:
    odd = 'C:\\x "q"\nnext'
    told = samples(HostReport("lab1", "", (Finding("a.b", odd, Verdict.FAIL),)))
    assert odd in {dict(labels).get("subject") for _, labels in told}


def test_times_are_metrics_and_a_host_that_was_not_examined_is_0() -> None:
    seen = HostReport("lab1", "x", (), bundle=Bundle("lab1", (), captured_at="1970-01-02T00:00:00Z"))
    told = samples(seen, HostReport("lab2", "", (), error="no"))
    assert told["qwenhost_host_examined_timestamp_seconds", frozenset({("host", "lab1")})] == 86400
    assert told["qwenhost_host_examined", frozenset({("host", "lab2"), ("sku", "")})] == 0
    assert ("qwenhost_run_timestamp_seconds", frozenset[tuple[str, str]]()) in told
