"""Kernel arguments that are wanted: in the running kernel, in GRUB's menu, in our file, or dropped on the way."""

from __future__ import annotations

import json

import pytest

from qwenhost.checks.engine import examine
from qwenhost.expectations.declared import read_declared
from qwenhost.expectations.settings import Placement, role_settings
from qwenhost.facts.boot_loader import MENU, OWN, UPDATE
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations, HugepagePool, Setting
from qwenhost.records.finding import Finding
from qwenhost.workflows.doctor import expectations_of

THIS, EARLIER = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
PT = Setting("iommu", "iommu=pt", "", "test")
PAGES = Setting("hugepagesz", "hugepagesz=1G hugepages=4", "", "test")
LATER = "/etc/default/grub.d/99-site.cfg"
POOL = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
UBUNTU = (
    "menuentry 'Ubuntu' --class ubuntu {{\n\tif [ x = x ]; then\n\t\tlinuxefi\t/vmlinuz-6.8.0-60-generic"
    " root=UUID=0f-1 ro  quiet {0}\n}}\nmenuentry 'recovery' {{\n linux\t/vmlinuz-6.8.0-60-generic root=UUID=0f ro"
    " recovery nomodeset\n}}\n"
)
DEBIAN = (
    "\tlinux\t/boot/vmlinuz-6.1.0-32-amd64 root=/dev/sda1 ro single\n\tlinux\t/boot/vmlinuz-6.1.0-32-amd64 x {0}\n"
)


def host(running: str, menu: str, own: str = "", boot: str = THIS, form: str = UBUNTU, **files: str) -> Bundle:
    """Return a host with these arguments in /proc/cmdline, in the menu and in our file, written in `boot`."""
    texts = {"/proc/version": "Linux version 6.8.0", UPDATE: "#!/bin/sh\n", MENU: form.format(menu), **files}
    if own:
        line = f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {own}"\n'
        texts[OWN] = f"# Ansible managed\n# Written in boot {boot}\n{line}"
    captures = (
        Capture("kernel-args", "ok", f"BOOT_IMAGE=/vmlinuz root=UUID=0f-1 ro {running}\n"),
        Capture("boot-loader", "ok", json.dumps({path: text for path, text in texts.items() if text})),
        Capture("boot-id", "ok", f"{THIS}\n"),
    )
    return Bundle("h", captures)


def judged(bundle: Bundle, *wanted: Setting, pools: tuple[HugepagePool, ...] = ()) -> list[Finding]:
    want = Expectations(kernel_args=wanted, hugepages=pools)
    return [finding for finding in examine(bundle, want) if finding.check == "host.kernel-args"]


CASES = {
    "there": (host("quiet iommu=pt", "iommu=pt", "iommu=pt"), "pass", "none", "in force"),
    "there by others": (host("iommu=pt", "iommu=pt", form=DEBIAN), "pass", "none", "in force"),
    "nowhere": (host("quiet", "splash"), "fail", "role", "not configured"),
    "next boot loses it": (host("iommu=pt", "splash"), "fail", "role", "in force until the next boot"),
    "menu not made": (host("quiet", "splash", "iommu=pt"), "fail", "role", "not configured"),
    "waits": (host("quiet", "iommu=pt", "iommu=pt"), "warn", "reboot", "waits for a reboot"),
    "waits, by others": (host("quiet", "iommu=pt", form=DEBIAN), "warn", "reboot", "waits for a reboot"),
    "not taken": (
        host("quiet", "iommu=pt", "iommu=pt", EARLIER),
        "warn",
        "hand",
        "a boot later still not in force",
    ),
    "dropped": (
        host("quiet", "quiet", "iommu=pt", **{LATER: '# ours\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'}),
        "warn",
        "hand",
        f"dropped by {LATER}:2",
    ),
    "kept by a later file": (
        host(
            "quiet", "quiet", "iommu=pt", **{LATER: 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT x"\n'}
        ),
        "fail",
        "role",
        "not configured",
    ),
    "another value": (host("iommu=pt2", "iommu=pt2"), "fail", "role", "not configured"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_argument(case: str) -> None:
    bundle, verdict, remedy, told = CASES[case]
    (finding,) = judged(bundle, PT)
    assert (finding.subject, finding.verdict, finding.remedy.kind) == ("iommu=pt", verdict, remedy)
    assert told in finding.observed


def test_the_next_boot_that_was_not_seen_is_unknown() -> None:
    hidden = host("iommu=pt", "iommu=pt", **{MENU: "", f"{MENU}!": "EACCES"})
    assert [finding.verdict.value for finding in judged(hidden, PT)] == ["unknown"]
    nothing = Bundle("h", hidden.captures[:1])
    assert [finding.verdict.value for finding in judged(nothing, PT)] == ["unknown"]


def test_what_an_earlier_run_wrote_and_nobody_wants_is_taken_out() -> None:
    (finding,) = judged(host("iommu=pt", "iommu=pt", "iommu=pt"))
    assert (finding.verdict, finding.remedy.role, finding.subject) == ("fail", "host_tuning", "iommu=pt")


@pytest.mark.parametrize(
    ("running", "pages", "verdict"),
    [("quiet", "4", "pass"), ("quiet", "1", "warn"), ("hugepagesz=1G hugepages=4", "1", "pass")],
)
def test_pages_that_are_there_need_no_reboot(running: str, pages: str, verdict: str) -> None:
    wanted = "hugepagesz=1G hugepages=4"
    bundle = host(running, wanted, wanted)
    bundle = Bundle("h", (*bundle.captures, Capture("hugepages", "ok", json.dumps({POOL: pages}))))
    assert [finding.verdict for finding in judged(bundle, PAGES, pools=(HugepagePool(-1, 1 << 20, 4),))] == [
        verdict
    ]


def told_and_given(bundle: Bundle, **variables: object) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what doctor tells of the host, and what the role is given."""
    want = expectations_of(bundle, read_declared(variables, "h"))
    found = [finding for finding in examine(bundle, want) if finding.check == "host.kernel-args"]
    told = [(finding.subject, finding.verdict.value) for finding in found]
    return told, role_settings(want, {}, Placement())["host_tuning_kernel_args"]


SERVING = {"qwenhost_profile": "serving"}


@pytest.mark.parametrize(
    "edit", [{MENU: ""}, {UPDATE: ""}, {"/proc/cmdline": "root=/dev/vda console=ttyS0\n"}], ids=str
)
def test_where_grub_does_not_boot_the_host_nothing_is_asked(edit: dict[str, str]) -> None:
    bundle = host("quiet", "splash", **edit)
    if "/proc/cmdline" in edit:
        bundle = Bundle("h", (Capture("kernel-args", "ok", edit["/proc/cmdline"]), *bundle.captures[1:]))
    assert told_and_given(bundle, **SERVING) == ([("iommu=pt", "skip")], [])


def test_bare_metal_alone_gets_what_the_profile_marks() -> None:
    bundle = host("quiet", "splash")
    assert told_and_given(bundle, **SERVING) == ([("iommu=pt", "fail")], ["iommu=pt"])
    guest = Capture("dmesg", "ok", "[    0.000000] Linux version 6.8\n[    0.000000] Hypervisor detected: KVM\n")
    virtual = Bundle("h", (*bundle.captures, guest))
    assert told_and_given(virtual, **SERVING) == ([("iommu=pt", "skip")], [])
    own = told_and_given(virtual, **SERVING, qwenhost_kernel_args=["iommu=pt", "nohz=off"])
    assert own == ([("iommu=pt", "fail"), ("nohz=off", "fail")], ["iommu=pt", "nohz=off"])


@pytest.mark.parametrize(
    ("pools", "given"),
    [
        ({"1G": 4}, "hugepagesz=1G hugepages=4"),
        ({"1G": {0: 2, 1: 2}}, "hugepagesz=1G hugepages=4"),
        ({"1G": {0: 2}}, "hugepagesz=1G hugepages=0:2"),
        ({"1G": {0: 2, 1: 1}, "2M": 5}, "hugepagesz=1G hugepages=0:2,1:1"),
        ({"2M": 5}, ""),
        ({"1G": 0}, ""),
    ],
    ids=str,
)
def test_large_pages_are_reserved_at_boot(pools: dict[str, object], given: str) -> None:
    bundle = host("quiet", "splash")
    nodes = {f"/sys/devices/system/node/node{node}/cpulist": f"{node}\n" for node in (0, 1)}
    bundle = Bundle("h", (*bundle.captures, Capture("numa-nodes", "ok", json.dumps(nodes))))
    assert " ".join(told_and_given(bundle, qwenhost_hugepages=pools)[1]) == given
