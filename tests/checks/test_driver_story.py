"""The driver's parts against one another: each fault alone, and one cause told once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.software import driver_floor
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Finding, Verdict
from tests.checks.conftest import Edit, added, edited, logged, of, without

Verdicts = Callable[..., dict[str, str]]

RUNNING, NEXT = "6.1.0-32-amd64", "6.1.0-35-amd64"
BOOT_NEXT = ("kernels-installed", f"/boot/vmlinuz-{RUNNING}\n", f"/boot/vmlinuz-{RUNNING}\n/boot/vmlinuz-{NEXT}\n")
SMI = ("nvidia-smi", "nvidia-smi-q", "nvidia-smi-L", "nvidia-smi-version", "nvml")
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
APT = """\
Start-Date: 2026-11-29  06:31:02
Commandline: /usr/bin/unattended-upgrade
Upgrade: libnvidia-ml1:amd64 (580.95.05-1, 580.105.08-1), nvidia-driver:amd64 (580.95.05-1, 580.105.08-1)
End-Date: 2026-11-29  06:31:40
"""
DNF = """\
2026-11-29T06:31:02+0000 SUBDEBUG Upgrade: nvidia-driver-libs-3:580.105.08-1.el9.x86_64
2026-11-29T06:31:40+0000 SUBDEBUG Upgraded: nvidia-driver-libs-3:580.95.05-1.el9.x86_64
"""


def silent(bundle: Bundle, said: str) -> Bundle:
    """Let the driver's tools say only this."""
    return added(without(bundle, *SMI), "nvidia-smi", said + "\n")


def alarms(bundle: Bundle, want: Expectations) -> list[Finding]:
    """Return what stands for itself: warnings and failures that no other finding explains."""
    loud = (Verdict.WARN, Verdict.FAIL)
    return [finding for finding in examine(bundle, want) if finding.verdict in loud and not finding.cause]


@pytest.mark.parametrize(("source", "history"), [("apt-history", APT), ("dnf-history", DNF)])
@pytest.mark.parametrize(
    "said",
    [
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.105",
        "Failed to initialize NVML: Driver/library version mismatch",
    ],
)
def test_an_upgrade_under_a_loaded_module_is_one_story(
    healthy: Bundle, want: Expectations, source: str, history: str, said: str
) -> None:
    bundle = edited(
        silent(healthy, said),
        ("packages-dpkg", "580.95.05-1", "580.105.08-1"),
        ("packages-dpkg", "hi ", "ii "),
        ("modinfo", "version:        580.95.05", "version:        580.105.08"),
        ("fabricmanager-version", "580.95.05", "580.105.08"),
    )
    (finding,) = alarms(added(bundle, source, history), want)
    assert (finding.check, finding.verdict) == ("driver.versions-agree", Verdict.FAIL)
    assert "580.95.05 -> 580.105.08" in finding.evidence
    assert "Reboot" in finding.remedy.text
    assert "modprobe" in finding.remedy.text


def test_a_reboot_does_not_help_when_the_module_was_not_built(healthy: Bundle, want: Expectations) -> None:
    said = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.105"
    (finding,) = of(examine(silent(healthy, said), want), "driver.versions-agree")
    assert "a reboot alone does not help" in finding.remedy.text


def test_a_program_with_its_own_libraries_is_not_the_host(healthy: Bundle, want: Expectations) -> None:
    refused = (
        "NVRM: API mismatch: the client has the version 570.86.15, but"
        " NVRM: this kernel module has the version 580.95.05."
    )
    (finding,) = of(examine(logged(healthy, refused), want), "driver.versions-agree")
    assert finding.verdict is Verdict.WARN
    assert "570.86.15" in finding.observed
    (finding,) = of(examine(logged(silent(healthy, NO_DRIVER), refused), want), "driver.versions-agree")
    assert finding.verdict is Verdict.FAIL


def dated(bundle: Bundle, version: str, year: str) -> Bundle:
    """The host some other year, with another driver."""
    captures = tuple(
        replace(item, text=item.text.replace("580.95.05", version).replace(" 2026", f" {year}"))
        for item in bundle.captures
    )
    return replace(bundle, captures=captures)


@pytest.mark.parametrize(
    ("version", "year", "verdict"),
    [
        ("580.95.05", "2026", "pass"),
        ("580.95.05", "2028", "warn"),
        ("535.161.08", "2024", "pass"),
        ("535.161.08", "2025", "note"),
        ("535.161.08", "2026", "warn"),
        ("570.124.06", "2025", "note"),
        ("550.54.15", "2024", "note"),
        ("550.54.15", "2026", "warn"),
        ("615.31.02", "2026", "note"),
        ("999.10.01", "2026", "note"),
    ],
)
def test_the_end_of_a_branch_is_judged_by_the_date_of_the_capture(
    healthy: Bundle, want: Expectations, version: str, year: str, verdict: str
) -> None:
    (finding,) = of(examine(dated(healthy, version, year), want), "driver.supported")
    assert finding.verdict == verdict


def test_without_a_date_nothing_is_said_of_support(healthy: Bundle, want: Expectations) -> None:
    bundle = without(healthy, "nvidia-smi", "nvidia-smi-q")
    assert of(examine(bundle, want), "driver.supported")[0].verdict is Verdict.UNKNOWN


LOOSE: Edit = ("packages-dpkg", "hi ", "ii ")
UBUNTU: Edit = ("packages-dpkg", "580.95.05-1", "580.95.05-0ubuntu0.24.04.2")
UNATTENDED: Edit = ("packages-dpkg", "un \tunattended-upgrades\t", "ii \tunattended-upgrades\t2.9")
SWITCH = {"/etc/apt/apt.conf.d/20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";\n'}
SPARED = {
    "/etc/apt/apt.conf.d/50unattended-upgrades": 'Unattended-Upgrade::Package-Blacklist {\n  "nvidia";\n};\n'
}
EXACT = {"/etc/apt/preferences.d/nvidia": "Package: *nvidia*\nPin: version 580.95.05*\nPin-Priority: 1001\n"}
BRANCH = {"/etc/apt/preferences.d/nvidia": "Package: *nvidia*\nPin: version 580.*\nPin-Priority: 1001\n"}


@pytest.mark.parametrize(
    ("edits", "files", "verdict"),
    [
        ([LOOSE], {}, "note"),
        ([LOOSE], BRANCH, "note"),
        ([LOOSE], EXACT, "pass"),
        ([LOOSE, UNATTENDED], SWITCH, "note"),
        ([LOOSE, UBUNTU], SWITCH, "note"),
        ([LOOSE, UBUNTU, UNATTENDED], {}, "note"),
        ([LOOSE, UBUNTU, UNATTENDED], SWITCH, "warn"),
        ([LOOSE, UBUNTU, UNATTENDED], {**SWITCH, **BRANCH}, "warn"),
        ([LOOSE, UBUNTU, UNATTENDED], {**SWITCH, **SPARED}, "note"),
        ([UBUNTU, UNATTENDED], SWITCH, "pass"),
    ],
)
def test_who_may_move_the_driver(
    healthy: Bundle, want: Expectations, edits: list[Edit], files: dict[str, str], verdict: str
) -> None:
    locks = json.dumps({"/etc/os-release": "ID=debian\n", **files})
    bundle = added(edited(without(healthy, "package-locks"), *edits), "package-locks", locks)
    (finding,) = of(examine(bundle, want), "driver.pinned")
    assert finding.verdict == verdict
    assert verdict == "pass" or "apt-mark hold" in finding.remedy.text


RPMS = """\
rpm-4.16.1.3-29.el9.x86_64
dnf-automatic-4.14.0-17.el9.noarch
nvidia-driver-3:580.95.05-1.el9.x86_64
kmod-nvidia-open-dkms-3:580.95.05-1.el9.noarch
"""


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ({}, "note"),
        ({"/etc/dnf/automatic.conf": "[commands]\napply_updates = yes\n"}, "warn"),
        ({"/etc/dnf/automatic.conf": "[commands]\napply_updates = no\n"}, "note"),
        ({"/etc/dnf/plugins/versionlock.list": "nvidia-driver-3:580.95.05-1.el9.*\n"}, "pass"),
        ({"/etc/dnf/dnf.conf": "[main]\nexclude=nvidia* kmod-nvidia*\n"}, "pass"),
    ],
)
def test_who_may_move_the_driver_with_dnf(
    healthy: Bundle, want: Expectations, files: dict[str, str], verdict: str
) -> None:
    bundle = without(healthy, "package-locks", "packages-dpkg")
    bundle = added(bundle, "packages-rpm", RPMS)
    bundle = added(bundle, "package-locks", json.dumps({"/etc/os-release": "ID=rhel\n", **files}))
    (finding,) = of(examine(bundle, want), "driver.pinned")
    assert finding.verdict == verdict


KERNELS: list[tuple[str, list[Edit], dict[str, str]]] = [
    ("next kernel without a module", [BOOT_NEXT], {"driver.module-for-kernel": "warn"}),
    (
        "next kernel that DKMS did not build for",
        [BOOT_NEXT, ("dkms", "nvidia/", f"nvidia/580.95.05, {NEXT}, x86_64: built\nnvidia/")],
        {"driver.module-for-kernel": "note", "driver.dkms": "warn"},
    ),
    (
        "next kernel with a module",
        [BOOT_NEXT, ("kernels-installed", "/proc/version\n", f"/lib/modules/{NEXT}/updates/dkms/nvidia.ko.zst\n")],
        {},
    ),
    (
        "older kernel without a module",
        [("kernels-installed", "/proc/version\n", "/proc/version\n/boot/vmlinuz-6.1.0-9-amd64\n")],
        {},
    ),
    (
        "module loaded from elsewhere",
        [("kernels-installed", f"/lib/modules/{RUNNING}/updates/dkms/nvidia.ko.xz\n", "")],
        {"driver.module-for-kernel": "note"},
    ),
    (
        "older version left in DKMS",
        [("dkms", "nvidia/", "nvidia/570.86.15: added\nnvidia/")],
        {"driver.dkms": "note"},
    ),
    (
        "newer module on disk",
        [("modinfo", "version:        580.95.05", "version:        580.105.08")],
        {"driver.reboot-pending": "warn"},
    ),
    (
        "kernel asks for a reboot",
        [("reboot-required", "{", '{"/run/reboot-required": "*** System restart required ***\\n", ')],
        {"driver.reboot-pending": "note"},
    ),
    (
        "Secure Boot and no signature",
        [("secure-boot", '0\\u0000"', '0\\u0001"'), ("modinfo", "signer:", "nothing:")],
        {"driver.secure-boot": "note"},
    ),
]


@pytest.mark.parametrize(("edits", "told"), [row[1:] for row in KERNELS], ids=[row[0] for row in KERNELS])
def test_while_the_driver_answers(
    healthy: Bundle, verdicts: Verdicts, edits: list[Edit], told: dict[str, str]
) -> None:
    seen = verdicts(edited(healthy, *edits))
    assert {check: seen[check] for check in seen if check.startswith("driver.")} == told


BROKEN = [
    (
        "no module for the running kernel",
        [BOOT_NEXT, ("kernel-version", RUNNING, NEXT)],
        "",
        "driver.module-for-kernel",
    ),
    (
        "DKMS failed",
        [],
        "Error! Bad return status for module build on kernel: 6.1.0-35-amd64 (x86_64)\n"
        "Consult /var/lib/dkms/nvidia/580.95.05/build/make.log for more information.\n",
        "driver.dkms",
    ),
    (
        "no headers",
        [],
        "Error! Your kernel headers for kernel 6.1.0-35-amd64 cannot be found at /lib/modules/x/build\n",
        "driver.dkms",
    ),
    ("DKMS 3", [], "dkms autoinstall on 6.1.0-35-amd64/x86_64 failed for nvidia(10)\n", "driver.dkms"),
    (
        "key rejected",
        [],
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n",
        "driver.secure-boot",
    ),
    ("key not enrolled", [], "could not insert 'nvidia': Required key not available\n", "driver.secure-boot"),
    (
        "no signature",
        [("secure-boot", '0\\u0000"', '0\\u0001"'), ("modinfo", "signer:", "nothing:")],
        "",
        "driver.secure-boot",
    ),
]


@pytest.mark.parametrize(("edits", "log", "cause"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_why_the_driver_is_not_there(
    healthy: Bundle, want: Expectations, edits: list[Edit], log: str, cause: str
) -> None:
    bundle = edited(silent(without(healthy, "proc-driver-nvidia-version"), NO_DRIVER), *edits)
    findings = examine(added(bundle, "module-log", log) if log else bundle, want)
    (present,) = of(findings, "driver.present")
    assert (present.verdict, present.cause) == (Verdict.FAIL, cause)
    assert [f.check for f in findings if f.verdict is Verdict.FAIL and not f.cause] == [cause]


def test_a_container_has_no_kernels(healthy: Bundle, want: Expectations) -> None:
    bundle = added(without(healthy, "kernels-installed"), "kernels-installed", "/proc/version\n")
    assert of(examine(bundle, want), "driver.module-for-kernel")[0].verdict is Verdict.SKIP


COMPAT = "libcuda.so.1 (libc6,x86-64) => /usr/local/cuda-{}/compat/libcuda.so.1\n\tlibcuda.so.1 (libc6,x86-64)"
FLOOR = driver_floor("0.32.0")


@pytest.mark.parametrize(
    ("driver", "compat", "told"),
    [
        ("580.95.05", "", {}),
        ("570.124.06", "", {"driver.cuda-match": "fail"}),
        ("570.124.06", "13.0", {"driver.forward-compat": "note", "driver.cuda-match": "note"}),
        ("570.124.06", "12.8", {"driver.forward-compat": "fail", "driver.cuda-match": "fail"}),
        ("580.95.05", "12.9", {"driver.forward-compat": "fail"}),
        ("580.95.05", "13.2", {"driver.forward-compat": "note"}),
    ],
)
def test_cuda_of_the_wheels_and_of_the_driver(
    healthy: Bundle, verdicts: Verdicts, driver: str, compat: str, told: dict[str, str]
) -> None:
    bundle = dated(healthy, driver, "2025")
    if compat:
        bundle = edited(bundle, ("ldconfig", "libcuda.so.1 (libc6,x86-64)", COMPAT.format(compat)))
    expected = Expectations(driver_floor=FLOOR.version, driver_floor_origin=FLOOR.origin, gpus=8)
    seen = verdicts(bundle, expected)
    assert {
        check: seen[check] for check in seen if check in ("driver.cuda-match", "driver.forward-compat")
    } == told


def test_the_chain_to_the_driver_is_told() -> None:
    assert "vLLM 0.32.0 -> torch 2.13.0 -> CUDA 13.0 -> driver 580.65.06" in FLOOR.origin


@pytest.mark.parametrize(
    ("line", "check"),
    [
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported",
            "driver.forward-compat",
        ),
        (
            "cudaErrorCompatNotSupportedOnDevice: forward compatibility was attempted on non supported HW",
            "driver.forward-compat",
        ),
        ("The NVIDIA driver on your system is too old (found version 12080)", "driver.cuda-match"),
        ("CUDA driver version is insufficient for CUDA runtime version", "driver.cuda-match"),
    ],
)
def test_what_programs_say(healthy: Bundle, verdicts: Verdicts, line: str, check: str) -> None:
    bundle = replace(healthy, captures=(*healthy.captures, Capture("cuda-errors", "ok", line + "\n")))
    assert verdicts(bundle)[check] == "fail"
