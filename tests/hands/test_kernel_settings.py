"""sysctl, thp and hugepages: only what differs is written, and what was written is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qwenhost.hands import hugepages, kernel, sysctl
from qwenhost.hands.answer import Refused
from tests.hands.conftest import Hands

BUFFERS = {"values": {"net.ipv4.tcp_rmem": "4096 131072 6291456", "vm.swappiness": 10}}


def pools(node: int, pages: int, size_kib: int = 2048) -> dict[str, Any]:
    return {"pools": [{"node": node, "size_kib": size_kib, "pages": pages}]}


def test_sysctl_writes_only_what_differs(hands: Hands, root: Path) -> None:
    ran = hands("sysctl", BUFFERS)
    assert ran.answer == {
        "changed": True,
        "before": ["net.ipv4.tcp_rmem = 4096 131072 6291456", "vm.swappiness = 60"],
        "after": ["net.ipv4.tcp_rmem = 4096 131072 6291456", "vm.swappiness = 10"],
        "reboot_required": False,
        "reason": "",
    }
    assert (root / "proc/sys/net/ipv4/tcp_rmem").read_text() == "4096\t131072\t6291456\n"
    assert hands("sysctl", BUFFERS).answer["changed"] is False


def test_check_says_the_same_and_changes_nothing(hands: Hands, root: Path) -> None:
    checked = hands("sysctl", BUFFERS, "--check")
    assert (root / "proc/sys/vm/swappiness").read_text() == "60\n"
    assert hands("sysctl", BUFFERS) == checked


def test_sysctl_key_with_a_dot_in_a_name(hands: Hands, root: Path) -> None:
    assert hands("sysctl", {"values": {"net/ipv4/conf/eth0.7/rp_filter": 0}}).status == 0
    assert hands("sysctl", {"values": {"net.ipv4.conf.eth0/7.rp_filter": 0}}).answer["changed"] is False


def test_sysctl_names_what_this_kernel_has_not(hands: Hands, root: Path) -> None:
    ran = hands("sysctl", {"values": {"vm.nonesuch": 1, "vm.swappiness": 10}})
    assert (ran.status, ran.answer) == (1, {"error": "sysctl: vm.nonesuch: this kernel has no such setting"})
    assert (root / "proc/sys/vm/swappiness").read_text() == "60\n"


def test_sysctl_reads_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QWENHOST_ROOT", str(root))
    monkeypatch.setattr(kernel, "write", lambda path, text: Path(path).write_text("100"))
    with pytest.raises(Refused, match=r"vm\.swappiness: set to 10, the kernel made it 100"):
        sysctl.run({"values": {"vm.swappiness": 10}})


def test_sysctl_tells_why_the_kernel_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, text: str) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setenv("QWENHOST_ROOT", str(root))
    monkeypatch.setattr(kernel, "write", refuse)
    with pytest.raises(Refused, match=r"vm\.swappiness: cannot be set to 10: Invalid argument"):
        sysctl.run({"values": {"vm.swappiness": 10}})


@pytest.mark.parametrize(("text", "changed"), [("always [madvise] never", False), ("madvise", False)])
def test_thp_reads_both_forms(hands: Hands, root: Path, text: str, changed: bool) -> None:
    (root / "sys/kernel/mm/transparent_hugepage/enabled").write_text(text + "\n")
    assert hands("thp", {"mode": "madvise"}).answer["changed"] is changed


def test_thp_sets_the_mode_once(hands: Hands) -> None:
    assert hands("thp", {"mode": "madvise"}).answer["before"] == ["always"]
    assert hands("thp", {"mode": "madvise"}).answer["changed"] is False


@pytest.mark.parametrize("node", [-1, 0, 1])
def test_hugepages_of_host_and_node(hands: Hands, root: Path, node: int) -> None:
    ran = hands("hugepages", pools(node, 512))
    assert ran.status == 0
    assert ran.answer["changed"] is True
    assert "512 pages of 2048 KiB" in ran.answer["after"][0]
    assert (root / "proc/sys/vm/compact_memory").read_text() == "1\n"
    assert hands("hugepages", pools(node, 512)).answer["changed"] is False


def test_hugepages_shrink_without_compaction(hands: Hands, root: Path) -> None:
    assert hands("hugepages", pools(1, 0)).answer["before"] == ["node 1: 64 pages of 2048 KiB"]
    assert (root / "proc/sys/vm/compact_memory").read_text() == "0\n"


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_hugepages_that_leave_no_memory_are_refused(hands: Hands, root: Path, check: tuple[str, ...]) -> None:
    (root / "proc/meminfo").write_text("MemTotal:        4194304 kB\nMemFree:         4000000 kB\n")
    told = hands("hugepages", pools(1, 2048), *check).answer["error"]
    assert told == "hugepages: 4 GiB of huge pages on a host with 4 GiB of memory"
    assert hands("hugepages", pools(1, 64)).status == 0


def test_hugepages_names_missing_node_and_size(hands: Hands) -> None:
    assert "no NUMA node 4 (it has: 0, 1)" in hands("hugepages", pools(4, 1)).answer["error"]
    told = hands("hugepages", pools(0, 1, size_kib=1048576), "--check").answer["error"]
    assert told == "hugepages: no huge pages of 1048576 kB here (offered: 2048kB)"


def test_partial_allocation_fails_with_its_numbers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that finds 100 pages more at each attempt, and no more than 300."""
    pool = root / "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"

    def grant(path: str, text: str) -> None:
        if path == str(pool):
            pool.write_text(str(min(300, int(pool.read_text()) + 100, int(text))))

    monkeypatch.setenv("QWENHOST_ROOT", str(root))
    monkeypatch.setattr(kernel, "write", grant)
    with pytest.raises(Refused, match="node 0: 512 pages of 2048 KiB wanted, 300 there: memory is full"):
        hugepages.run(pools(0, 512))
    pool.write_text("0")
    assert hugepages.run(pools(0, 250))["after"] == ["node 0: 250 pages of 2048 KiB"]
