"""kernel-args: our file alone, GRUB's menu made anew and read back, everybody else's arguments as they were."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qwenhost.lab.simulator.grub import write_grub
from tests.hands.conftest import Hands

BOOT = "11111111-2222-4333-8444-555555555555"
OWN = "etc/default/grub.d/90-qwenhost.cfg"
MENU = "boot/grub/grub.cfg"
WANTED = {"args": ["iommu=pt", "hugepagesz=1G hugepages=4"]}


@pytest.fixture
def grub(root: Path) -> Path:
    """A host that GRUB boots, with arguments of others, one of them twice."""
    write_grub(root)
    (root / "etc/default/grub").write_text('GRUB_CMDLINE_LINUX_DEFAULT="quiet crashkernel=1G crashkernel=1G"\n')
    (root / "etc/default/grub.d/50-cloud.cfg").write_text('GRUB_CMDLINE_LINUX="console=ttyS0"\n')
    subprocess.run(["/bin/sh", root / "usr/sbin/update-grub"], check=True, capture_output=True)
    (root / "proc/cmdline").write_text("BOOT_IMAGE=/boot/vmlinuz root=/dev/sda1 ro quiet\n")
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text(f"{BOOT}\n")
    return root


def entries(root: Path) -> list[str]:
    return [
        line.split(" ro ")[1] for line in (root / MENU).read_text().splitlines() if "linux" in line.split("\t")
    ]


def test_arguments_follow_those_of_others(hands: Hands, grub: Path) -> None:
    ran = hands("kernel-args", WANTED)
    assert (ran.status, ran.answer["changed"], ran.answer["reboot_required"]) == (0, True, True), ran.answer
    assert ran.answer["reason"] == "kernel arguments: iommu=pt hugepagesz=1G hugepages=4"
    normal, rescue = entries(grub)
    assert normal == "console=ttyS0 quiet crashkernel=1G crashkernel=1G iommu=pt hugepagesz=1G hugepages=4"
    assert rescue == "console=ttyS0 single"
    assert BOOT in (grub / OWN).read_text()


def test_a_second_time_changes_nothing_in_a_later_boot_either(hands: Hands, grub: Path) -> None:
    hands("kernel-args", WANTED)
    (grub / "proc/sys/kernel/random/boot_id").write_text(BOOT.replace("1", "9") + "\n")
    before = (grub / OWN).read_text()
    again = hands("kernel-args", WANTED)
    assert (again.status, again.answer["changed"], again.answer["reboot_required"]) == (0, False, False)
    assert (grub / OWN).read_text() == before


def test_check_says_the_same_and_changes_nothing(hands: Hands, grub: Path) -> None:
    checked = hands("kernel-args", WANTED, "--check")
    assert not (grub / OWN).exists()
    assert hands("kernel-args", WANTED) == checked


def test_a_killed_run_is_finished_by_the_next(hands: Hands, grub: Path) -> None:
    menu = (grub / MENU).read_text()
    hands("kernel-args", WANTED)
    (grub / MENU).write_text(menu)  # the file was written, the menu was not made
    ran = hands("kernel-args", WANTED)
    assert ran.answer["before"] == ["kernel arguments: iommu=pt hugepagesz=1G hugepages=4, not in GRUB's menu"]
    assert "hugepages=4" in entries(grub)[0]


def test_what_others_give_is_not_given_again(hands: Hands, grub: Path) -> None:
    (grub / "etc/default/grub").write_text('GRUB_CMDLINE_LINUX_DEFAULT="iommu=pt hugepages=4"\n')
    subprocess.run(["/bin/sh", grub / "usr/sbin/update-grub"], check=True, capture_output=True)
    ran = hands("kernel-args", WANTED)
    assert ran.answer["after"] == ["kernel arguments: hugepagesz=1G hugepages=4"]
    assert entries(grub)[0] == "console=ttyS0 iommu=pt hugepages=4 hugepagesz=1G hugepages=4"
    assert hands("kernel-args", WANTED).answer["changed"] is False
    assert hands("kernel-args", {"args": ["iommu=pt"]}).answer["after"] == ["kernel arguments: none"]
    assert hands("kernel-args", {"args": ["iommu=pt"]}).answer["changed"] is False
    assert not (grub / OWN).exists()


def test_a_menu_that_was_older_than_its_files_is_seen_through(hands: Hands, grub: Path) -> None:
    (grub / MENU).write_text((grub / MENU).read_text().replace("quiet", "quiet iommu=pt"))
    assert hands("kernel-args", WANTED).status == 0
    assert entries(grub)[0].endswith("crashkernel=1G iommu=pt hugepagesz=1G hugepages=4")


def test_without_arguments_our_file_goes(hands: Hands, grub: Path) -> None:
    hands("kernel-args", WANTED)
    assert hands("kernel-args", {"args": []}).answer["changed"]
    assert not (grub / OWN).exists()
    assert hands("kernel-args", {"args": []}).answer["changed"] is False
    assert entries(grub)[0] == "console=ttyS0 quiet crashkernel=1G crashkernel=1G"


def test_a_later_file_that_drops_them_is_told(hands: Hands, grub: Path) -> None:
    (grub / "etc/default/grub.d/95-site.cfg").write_text('GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n')
    ran = hands("kernel-args", WANTED)
    assert ran.status == 1
    assert "update-grub left out iommu=pt" in ran.answer["error"]


def test_a_menu_that_cannot_be_made_leaves_the_old_file(hands: Hands, grub: Path) -> None:
    (grub / "usr/sbin/update-grub").write_text("#!/bin/sh\necho 'error: no space left' >&2\nexit 1\n")
    ran = hands("kernel-args", WANTED)
    told = "kernel-args: update-grub ended with 1: error: no space left"
    assert (ran.status, ran.answer["error"]) == (1, told)
    assert not (grub / OWN).exists()


@pytest.mark.parametrize("gone", [MENU, "usr/sbin/update-grub"])
def test_a_host_that_grub_does_not_boot_is_refused(hands: Hands, grub: Path, gone: str) -> None:
    (grub / gone).unlink()
    assert f"no /{gone}" in hands("kernel-args", WANTED).answer["error"]
    assert hands("kernel-args", {"args": []}).status == 0


@pytest.mark.parametrize("word", ['a="b"', "$(reboot)", "x;y", "a\\n", "`id`", ""])
def test_words_for_a_shell_are_refused(hands: Hands, grub: Path, word: str) -> None:
    assert hands("kernel-args", {"args": [word]}).status == 2


def test_rollback_makes_the_menu_of_before(hands: Hands, grub: Path) -> None:
    hands("kernel-args", {"args": ["iommu=pt"]})
    before = (grub / OWN).read_text(), (grub / MENU).read_text()
    hands("begin", {"run": "one", "controller": "ann@desk process 1 of 2", "sysctl": []})
    hands("kernel-args", WANTED)
    hands("end", {"run": "one", "controller": "ann@desk process 1 of 2"})
    undone = hands("rollback", {"to": "", "controller": "ann@desk process 1 of 2"})
    assert undone.status == 0, undone.answer
    assert ((grub / OWN).read_text(), (grub / MENU).read_text()) == before
