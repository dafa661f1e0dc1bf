"""What host_tuning leaves for the next boot: our files, each whole or not at all, and the unit of systemd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hands.conftest import Hands

SYSCTL, CONFIG = "/etc/sysctl.d/90-qwenhost.conf", "/etc/qwenhost/tuning.json"
UNIT, SERVICE = "/etc/systemd/system/qwenhost-tuning.service", "qwenhost-tuning.service"
PROGRAM = "usr/local/lib/qwenhost/hands.pyz"
KEPT = {"service": SERVICE, "files": {CONFIG: "{}\n", UNIT: "[Unit]\n"}}
AWAY = {"service": SERVICE, "files": {CONFIG: "", UNIT: ""}}
SYSTEMCTL = """#!/bin/sh
case "$*" in
  *show*) cat "$STATE" ;;
  *enable*now*) printf 'UnitFileState=enabled\\nActiveState=active\\n' > "$STATE" ;;
  *disable*) printf 'UnitFileState=\\nActiveState=inactive\\n' > "$STATE" ;;
esac
echo "$*" >> "$STATE.log"
"""


def test_a_file_is_written_named_in_its_lines_and_goes(hands: Hands, root: Path) -> None:
    wanted = {"files": {"files": {SYSCTL: "vm.swappiness = 1\n"}}}
    checked = hands("tuning", wanted, "--check")
    assert not (root / SYSCTL[1:]).exists()
    assert hands("tuning", wanted) == checked
    assert checked.answer["after"] == [f"{SYSCTL}: mode 0644", f"{SYSCTL}: vm.swappiness = 1"]
    assert (root / SYSCTL[1:]).read_text() == "vm.swappiness = 1\n"
    (root / SYSCTL[1:]).chmod(0o600)
    assert hands("tuning", wanted).answer["before"][0] == f"{SYSCTL}: mode 0600"
    assert hands("tuning", wanted).answer["changed"] is False
    assert hands("tuning", {"files": {"files": {SYSCTL: ""}}}).answer["after"] == []
    assert not (root / SYSCTL[1:]).exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/sysctl.d/99-site.conf", "/etc/tmpfiles.d/site.conf"])
def test_what_a_rollback_would_not_restore_is_not_written(hands: Hands, root: Path, path: str) -> None:
    ran = hands("tuning", {"files": {"files": {path: "x"}}})
    assert ran.status == 2 and path[1:] in ran.answer["error"]


def test_what_the_kernel_refuses_is_not_written(hands: Hands, root: Path) -> None:
    request = {"sysctl": {"values": {"vm.nonesuch": 1}}, "files": {"files": {SYSCTL: "vm.nonesuch = 1\n"}}}
    assert "vm.nonesuch" in hands("tuning", request).answer["error"]
    assert not (root / SYSCTL[1:]).exists()


def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing(hands: Hands, root: Path) -> None:
    (root / SYSCTL[1:]).mkdir(parents=True)
    ran = hands("tuning", {"files": {"files": {SYSCTL: "x\n"}}})
    assert ran.status == 1 and "Is a directory" in ran.answer["error"]
    assert [path.name for path in (root / SYSCTL[1:]).parent.iterdir()] == ["90-qwenhost.conf"]


@pytest.fixture
def told(root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A systemd that knows one unit; returns what it was told since, but for questions."""
    (root / "run/systemd/system").mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin/systemctl").write_text(SYSTEMCTL)
    (root / "bin/systemctl").chmod(0o755)
    state, log = root / "state", root / "state.log"
    state.write_text("UnitFileState=\nActiveState=inactive\n")
    monkeypatch.setenv("STATE", str(state))
    monkeypatch.setenv("PATH", f"{root}/bin:/usr/bin:/bin")

    def since() -> list[str]:
        lines = [line.split(maxsplit=1)[1] for line in log.read_text().splitlines()]
        log.write_text("")
        return [line for line in lines if not line.startswith("show")]

    return since


def test_the_unit_is_installed_started_kept_and_removed(
    hands: Hands, root: Path, archive: Path, told: Callable[[], list[str]]
) -> None:
    checked = hands("tuning", {"boot-unit": KEPT}, "--check")
    assert told() == [] and not (root / PROGRAM).exists()
    assert hands("tuning", {"boot-unit": KEPT}) == checked
    assert checked.answer["after"][-1] == f"{SERVICE}: enabled, active"
    assert told() == ["daemon-reload", f"enable --now {SERVICE}"]
    assert (root / PROGRAM).read_bytes() == archive.read_bytes()
    assert (root / PROGRAM).stat().st_mode & 0o777 == 0o755
    assert hands("tuning", {"boot-unit": KEPT}).answer["changed"] is False
    assert told() == []
    (root / "state").write_text("UnitFileState=disabled\nActiveState=active\n")
    assert hands("tuning", {"boot-unit": KEPT}).answer["before"][-1] == f"{SERVICE}: disabled, active"
    assert told() == [f"enable --now {SERVICE}"]
    assert hands("tuning", {"boot-unit": AWAY}).answer["after"] == []
    assert told() == [f"disable --now {SERVICE}", "daemon-reload"]
    assert not (root / UNIT[1:]).exists() and not (root / CONFIG[1:]).exists()
    assert hands("tuning", {"boot-unit": AWAY}).answer["changed"] is False
    assert told() == []


def test_half_a_unit_is_no_request(hands: Hands, root: Path) -> None:
    assert hands("tuning", {"boot-unit": {"service": SERVICE, "files": {CONFIG: "{}", UNIT: ""}}}).status == 2
