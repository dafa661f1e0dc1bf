"""Host settings and limits: declared and different fails, undeclared is skipped, unseen is unknown."""

from __future__ import annotations

import json

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.declared import read_declared
from qwenhost.expectations.resolve import resolve
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict


def verdicts(check: str, want: Expectations, *captures: Capture) -> dict[str, str]:
    """Return subject -> verdict of one check."""
    return {f.subject: f.verdict.value for f in examine(Bundle("h", captures), want) if f.check == check}


NOTHING = Expectations()
TUNED = resolve(read_declared({"qwenhost_profile": "serving"}, "h"))
PAGES = resolve(read_declared({"qwenhost_hugepages": {"2M": {0: 8, 2: 1}}}, "h"))
POOL = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
MEMINFO = Capture("meminfo", "ok", "HugePages_Total:    3738\nHugepagesize:       2048 kB\n")
UNITS = "Id=basic.target\n\nId=vllm@a.service\nLoadState=loaded\nLimitNOFILE={}\nLimitMEMLOCK=infinity\n"


def test_pages_of_a_node() -> None:
    for count, verdict in ((8, "pass"), (7, "fail"), (9, "fail")):
        seen = verdicts("host.hugepages", PAGES, Capture("hugepages", "ok", json.dumps({POOL: f"{count}\n"})))
        assert seen == {"node 0 2048 KiB": verdict, "node 2 2048 KiB": "fail"}
    assert set(verdicts("host.hugepages", PAGES, MEMINFO).values()) == {"unknown"}


@pytest.mark.parametrize(("total_kib", "told"), [(22528, {"host": "fail"}), (22529, {"node 0 2048 KiB": "pass"})])
def test_more_pages_than_memory_are_nothing_that_a_role_may_do(total_kib: int, told: dict[str, str]) -> None:
    want = resolve(read_declared({"qwenhost_hugepages": {"2M": {0: 11}}}, "h"))
    pages = Capture("hugepages", "ok", json.dumps({POOL: "11\n"}))
    memory = Capture("meminfo", "ok", f"MemTotal: {total_kib} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
    findings = [f for f in examine(Bundle("h", (pages, memory)), want) if f.check == "host.hugepages"]
    assert {f.subject: f.verdict.value for f in findings} == told
    assert [f.remedy.kind for f in findings if f.verdict is Verdict.FAIL] == ["hand"] * ("host" in told)


def test_pages_that_a_file_or_a_script_asked_for() -> None:
    conf = Capture("sysctl-text", "ok", "# pages\nvm.nr_hugepages = 4096\n", origin="sysctl.conf")
    script = Capture("hugepages-shortfall", "ok", "requested 4096 hugepages but only 3738 could be allocated.")
    assert verdicts("host.hugepages", NOTHING, MEMINFO, conf) == {"host": "warn"}
    assert verdicts("host.hugepages", NOTHING, MEMINFO, script) == {"host": "warn"}
    assert verdicts("host.hugepages", NOTHING, MEMINFO) == {"host": "skip"}


def test_a_configuration_file_is_not_the_state() -> None:
    text = "net.core.rmem_max = 134217728\n"
    live = Capture("sysctl-text", "ok", text, origin="sysctl.txt")
    conf = Capture("sysctl-text", "ok", text, origin="90-net.conf")
    assert verdicts("host.tcp-buffers", TUNED, live)["net.core.rmem_max"] == "pass"
    assert set(verdicts("host.tcp-buffers", TUNED, conf).values()) == {"unknown"}


def test_limits_of_logins_and_services() -> None:
    none = Capture("limits-qwenhost", "missing")
    low, high = (Capture("vllm-units", "ok", UNITS.format(count)) for count in (1024, 2097152))
    assert verdicts("host.nofile", TUNED, none, low) == {"limits.d": "fail", "vllm@a": "fail"}
    assert verdicts("host.nofile", TUNED, high) == {"limits.d": "unknown", "vllm@a": "pass"}
    assert verdicts("host.memlock", TUNED, none, low) == {"limits.d": "fail", "vllm@a": "pass"}
    assert verdicts("host.nofile", NOTHING, none) == {"host": "skip"}


def test_complaints_in_logs() -> None:
    out = Capture("open-files-log", "ok", "OSError: [Errno 24] Too many open files\n")
    full = Capture("file-table-log", "ok", "VFS: file-max limit 1000000 reached\n")
    advice = Capture("sysctl-advice", "ok", 'UCX ERROR try to increase "net.core.somaxconn"\n')
    assert verdicts("host.nofile", NOTHING, out) == {"host": "warn"}
    assert verdicts("host.file-max", NOTHING, full) == {"host": "fail"}
    assert verdicts("host.net-backlog", NOTHING, advice) == {"net.core.somaxconn": "warn"}
