"""What the next boot makes of each setting: files that win, files that are missing, what cannot be set here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.declared import read_declared
from qwenhost.expectations.settings import Placement, role_settings
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations, HugepagePool, Setting
from qwenhost.records.finding import Finding
from qwenhost.workflows.doctor import expectations_of

VERSION = "/proc/version"
OURS = "/etc/sysctl.d/90-qwenhost.conf"
LATER, EARLIER = "/etc/sysctl.d/99-sysctl.conf", "/usr/lib/sysctl.d/50-default.conf"
RIGHT = "# ours\nvm.swappiness = 1\nnet.core.rmem_max = 1000\n"
SETTINGS = (Setting("vm.swappiness", "1", "", "test"), Setting("net.core.rmem_max", "1000", "", "test", True))
THIS, BEFORE = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"


def files(source: str, contents: dict[str, str]) -> Capture:
    return Capture(source, "ok", json.dumps({VERSION: "Linux version 6.8.0", **contents}))


def found(check: str, want: Expectations, *captures: Capture) -> list[Finding]:
    return [finding for finding in examine(Bundle("h", captures), want) if finding.check == check]


@pytest.mark.parametrize(
    ("contents", "told"),
    [
        ({OURS: RIGHT}, [("host", "pass", "2 settings")]),
        ({OURS: RIGHT, EARLIER: "vm.swappiness=60\n"}, [("host", "pass", "2 settings")]),
        (
            {OURS: RIGHT, LATER: "# x\n;y\n\nvm/swappiness=60\n"},
            [("vm.swappiness", "warn", f"{LATER}:4 makes it 60")],
        ),
        ({OURS: RIGHT, LATER: "-vm.swappiness = 60"}, [("vm.swappiness", "warn", f"{LATER}:1 makes it 60")]),
        ({OURS: RIGHT, LATER: "net.core.rmem_max = 2000\n"}, [("host", "pass", "2 settings")]),
        ({OURS: RIGHT, LATER: "net.core.rmem_max = 10\n"}, [("net.core.rmem_max", "warn", "makes it 10")]),
        ({OURS: RIGHT, LATER: "vm.swappiness = 60\nvm.swappiness = 1\n"}, [("host", "pass", "2 settings")]),
        (
            {OURS: RIGHT, LATER: "", "/run/sysctl.d/99-sysctl.conf": "vm.swappiness=60"},
            [("host", "pass", "2 settings")],
        ),
        ({OURS: "vm.swappiness = 1\n"}, [("host", "fail", "not for the next boot: net.core.rmem_max")]),
        ({EARLIER: "vm.swappiness = 1\nnet.core.rmem_max=1000"}, [("host", "pass", "2 settings")]),
        ({OURS: RIGHT.replace("= 1\n", "= 7\n")}, [("host", "fail", "not for the next boot: vm.swappiness")]),
        ({}, [("host", "fail", "not for the next boot: vm.swappiness, net.core.rmem_max")]),
    ],
    ids=str,
)
def test_files_of_kernel_settings(contents: dict[str, str], told: list[tuple[str, str, str]]) -> None:
    findings = found("host.sysctl-files", Expectations(sysctl=SETTINGS), files("sysctl-files", contents))
    assert [(finding.subject, finding.verdict) for finding in findings] == [line[:2] for line in told]
    assert all(line[2] in finding.observed for line, finding in zip(told, findings, strict=True))
    kinds = {"pass": "none", "warn": "hand", "fail": "role"}
    assert {finding.remedy.kind for finding in findings} == {kinds[line[1]] for line in told}


WANT = Expectations(
    transparent_hugepages=Setting("transparent_hugepages", "madvise", "", "test"),
    governor=Setting("governor", "performance", "", "test"),
    swap=Setting("qwenhost_swap", "off", "", "test"),
    shm=Setting("qwenhost_shm", "1024", "", "test"),
    hugepages=(HugepagePool(0, 2048, 512),),
)
CONFIG = {
    "governor": {"governor": "performance"},
    "swap": {"on": False},
    "shm": {"size_bytes": 1024},
    "hugepages": {"pools": [{"node": 0, "size_kib": 2048, "pages": 512}], "reserved_at_boot": False},
}
UNIT = "/etc/systemd/system/qwenhost-tuning.service"
WANTED = "/etc/systemd/system/multi-user.target.wants/qwenhost-tuning.service"
PAGES = "/etc/tmpfiles.d/qwenhost-transparent-hugepages.conf"
LINE = "# Ansible managed\nw /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n"


def boot(config: dict[str, Any], **changes: str) -> Capture:
    contents = {UNIT: "[Unit]", WANTED: "[Unit]", PAGES: LINE, "/etc/qwenhost/tuning.json": json.dumps(config)}
    contents |= {{"unit": UNIT, "wanted": WANTED, "pages": PAGES}[name]: text for name, text in changes.items()}
    return files("tuned-at-boot", {path: text for path, text in contents.items() if text})


def failing(want: Expectations, capture: Capture) -> set[str]:
    findings = found("host.next-boot", want, capture)
    assert {finding.remedy.role for finding in findings if finding.verdict == "fail"} <= {"host_tuning"}
    return {finding.subject for finding in findings if finding.verdict not in ("pass", "skip")}


def test_all_that_is_set_at_boot_holds() -> None:
    assert failing(WANT, boot(CONFIG)) == set()
    assert failing(Expectations(), files("tuned-at-boot", {})) == set()


@pytest.mark.parametrize(
    ("capture", "subjects"),
    [
        (boot(CONFIG, wanted=""), {"qwenhost-tuning.service"}),
        (boot(CONFIG, unit=""), {"qwenhost-tuning.service"}),
        (boot(CONFIG, pages=""), {"transparent-hugepages"}),
        (boot(CONFIG, pages=LINE.replace("madvise", "always")), {"transparent-hugepages"}),
        (boot({**CONFIG, "governor": {"governor": "powersave"}}), {"governor"}),
        (boot({**CONFIG, "shm": {"size_bytes": 1}}), {"shm"}),
        (boot({key: part for key, part in CONFIG.items() if key != "swap"}), {"swap"}),
        (boot({**CONFIG, "hugepages": {"pools": []}}), {"hugepages"}),
        (files("tuned-at-boot", {}), {"transparent-hugepages", "governor", "swap", "shm", "hugepages"}),
    ],
)
def test_what_the_next_boot_lacks(capture: Capture, subjects: set[str]) -> None:
    assert failing(WANT, capture) == subjects


def test_what_nobody_declares_any_more_has_to_go() -> None:
    assert failing(Expectations(), boot(CONFIG)) == {
        "transparent-hugepages",
        "governor",
        "swap",
        "shm",
        "hugepages",
    }


OPTION = Setting("NVreg_EnableStreamMemOPs", "1", "", "test")
FILE = "# Written in boot {}\noptions nvidia NVreg_EnableStreamMemOPs={}\n"


@pytest.mark.parametrize(
    ("own", "loaded", "verdict", "kind"),
    [
        (FILE.format(THIS, 1), "EnableStreamMemOPs: 1\n", "pass", "none"),
        (FILE.format(THIS, 1), "EnableStreamMemOPs: 0\n", "warn", "reboot"),
        (FILE.format(BEFORE, 1), "EnableStreamMemOPs: 0\n", "warn", "hand"),
        (FILE.format(THIS, 0), "EnableStreamMemOPs: 1\n", "fail", "role"),
        ("", "EnableStreamMemOPs: 1\n", "fail", "role"),
        (FILE.format(THIS, 1), "", "note", "role"),
        (FILE.format(THIS, 1), "EnableMSI: 1\n", "note", "role"),
    ],
)
def test_options_of_the_nvidia_module(own: str, loaded: str, verdict: str, kind: str) -> None:
    contents = {"/etc/modprobe.d/qwenhost-nvidia.conf": own, "/proc/driver/nvidia/params": loaded}
    capture = files("nvidia-options", {path: text for path, text in contents.items() if text})
    (finding,) = found(
        "host.nvidia-options", Expectations(nvidia_options=(OPTION,)), capture, Capture("boot-id", "ok", THIS)
    )
    assert (finding.verdict, finding.remedy.kind) == (verdict, kind)
    assert [f.verdict for f in found("host.nvidia-options", Expectations(), capture)] == [
        "fail" if own else "skip"
    ]


LIMITS = Expectations(
    limits=(Setting("memlock", "unlimited", "", "test"), Setting("nofile", "1000", "", "t", True))
)
OUR_LIMITS = "* - memlock unlimited\nroot - memlock unlimited\n* - nofile 1000\n"


@pytest.mark.parametrize(
    ("path", "line", "told"),
    [
        ("95-site.conf", "# x\n*    hard   memlock  64\n", {"host.memlock"}),
        ("site.conf", "root soft nofile 10\n", {"host.nofile"}),
        ("95-site.conf", "* - nofile 2000\n", set()),
        ("95-site.conf", "alice - nofile 10\n", set()),
        ("10-site.conf", "* - memlock 64\n", set()),
    ],
)
def test_limits_that_are_read_after_ours(path: str, line: str, told: set[str]) -> None:
    ours = "/etc/security/limits.d/90-qwenhost.conf"
    captures = (
        Capture("limits-qwenhost", "ok", OUR_LIMITS),
        files("limits-files", {ours: OUR_LIMITS, f"/etc/security/limits.d/{path}": line}),
    )
    warned = [f for check in ("host.memlock", "host.nofile") for f in found(check, LIMITS, *captures)]
    assert {finding.check for finding in warned if finding.verdict == "warn"} == told


DOCKER = """\
overlay / overlay rw,relatime 0 0
proc /proc proc rw,nosuid 0 0
sysfs /sys sysfs ro,nosuid 0 0
proc /proc/sys proc ro,nosuid 0 0
proc /proc/sys/net proc rw,nosuid 0 0
"""
LIVE = {"/proc/sys/vm/swappiness": "60", "/proc/sys/net/core/rmem_max": "1", "/proc/sys/vm/zone_reclaim_mode": "0"}


def test_what_a_container_cannot_set_is_skipped_and_not_tried() -> None:
    captures = (
        Capture("mount-table", "ok", DOCKER),
        Capture("sysctl", "ok", json.dumps(LIVE)),
        Capture("transparent-hugepage", "ok", "[always] madvise never\n"),
        Capture("container", "ok", json.dumps({"/run/systemd/container": "docker\n", VERSION: "x"})),
        Capture("meminfo", "ok", "MemTotal: 9 kB\nSwapTotal: 9 kB\nSwapFree: 9 kB\n"),
    )
    variables = {"qwenhost_profile": "serving", "qwenhost_hugepages": {"2M": 1}, "qwenhost_swap": False}
    want = expectations_of(Bundle("h", captures), read_declared(variables, "h"))
    given = role_settings(want, {}, Placement())
    assert "vm.swappiness" not in given["host_tuning_sysctl"]
    assert "kernel.numa_balancing" not in given["host_tuning_sysctl"]
    assert given["host_tuning_sysctl"]["net.core.rmem_max"] == "134217728"
    empty = ("transparent_hugepages", "hugepages", "governor", "swap_off")
    assert not any(given[f"host_tuning_{name}"] for name in empty)
    told = {f.subject: (f.verdict.value, f.observed) for f in found("host.sysctl", want, *captures)}
    assert told["vm.swappiness"] == ("skip", "read-only here, as in a container: its machine sets it")
    for check in ("host.transparent-hugepages", "host.swap", "host.numa-balancing"):
        assert [f.verdict for f in found(check, want, *captures)] == ["skip"], check


def test_where_nothing_sets_a_frequency_no_governor_is_kept_for_the_next_boot() -> None:
    cpus = {"/sys/devices/system/cpu/online": "0-3\n", "/sys/devices/system/cpu/present": "0-3\n"}
    captures = (Capture("cpus", "ok", json.dumps(cpus)), files("tuned-at-boot", {PAGES: LINE}))
    want = expectations_of(Bundle("h", captures), read_declared({"qwenhost_profile": "serving"}, "h"))
    assert role_settings(want, {}, Placement())["host_tuning_governor"] == ""
    assert [finding.verdict for finding in found("host.governor", want, *captures)] == ["skip"]
    assert [finding.verdict for finding in found("host.next-boot", want, *captures)] == ["pass"]


def test_a_profile_asks_for_nothing_that_the_kernel_lacks() -> None:
    capture = Capture("sysctl", "ok", json.dumps(LIVE))
    want = expectations_of(Bundle("h", (capture,)), read_declared({"qwenhost_profile": "serving"}, "h"))
    told = {finding.subject: finding.verdict.value for finding in found("host.sysctl", want, capture)}
    assert told["net.ipv4.tcp_mtu_probing"] == "skip"
    assert told["vm.swappiness"] == "fail"


def test_settings_of_an_inventory_are_read_wherever_they_lie() -> None:
    want = expectations_of(Bundle("h", ()), read_declared({"qwenhost_sysctl": {"kernel.panic": 10}}, "h"))
    captures = (
        Capture("sysctl", "ok", json.dumps(LIVE)),
        Capture("sysctl:declared", "ok", json.dumps({"/proc/sys/kernel/panic": "10\n"})),
    )
    assert [finding.verdict for finding in found("host.sysctl", want, *captures)] == ["pass"]
