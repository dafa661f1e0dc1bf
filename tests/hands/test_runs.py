"""Runs on a host: one at a time, and each can be undone."""

from __future__ import annotations

import json
import re
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from qwenhost.hands import owned
from tests.hands.conftest import Hands

MINE = {"controller": "ann@desk process 10 of 1000", "run": "one"}
OTHERS = {"controller": "bob@desk process 20 of 2000", "run": "two"}
SYSCTL = "etc/sysctl.d/90-qwenhost.conf"
ROLES = Path(__file__).parents[2] / "roles"


@pytest.fixture
def changing(hands: Hands, root: Path) -> Path:
    """A host with some owned files, on which a run has begun."""
    put(root / SYSCTL, "vm.swappiness = 60\n", 0o640)
    put(root / "etc/qwenhost/mig.json", "{}\n")
    (root / "opt/qwenhost/vllm").mkdir(parents=True)
    (root / "opt/qwenhost/vllm/current").symlink_to("0.31.0")
    assert hands("begin", {**MINE, "sysctl": ["vm.swappiness"]}).status == 0
    return root


def put(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def change(root: Path) -> None:
    """Change, add and remove what is owned, as a run would."""
    put(root / SYSCTL, "vm.swappiness = 1\n", 0o600)
    put(root / "etc/systemd/system/vllm@a.service.d/10-qwenhost.conf", "[Service]\n")
    put(root / "etc/qwenhost/vllm/a.env", "VLLM_API_KEY=secret\n", 0o600)
    (root / "etc/qwenhost/mig.json").unlink()
    (root / "opt/qwenhost/vllm/current").unlink()
    (root / "opt/qwenhost/vllm/current").symlink_to("0.32.0")
    (root / "proc/sys/vm/swappiness").write_text("1\n")
    (root / "sys/kernel/mm/transparent_hugepage/enabled").write_text("never\n")
    (root / "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages").write_text("512\n")


def tree(root: Path) -> dict[str, Any]:
    """Everything below a root but the runs and the lock: links, contents and modes."""
    paths = [path for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    kept = [
        path for path in paths if not str(path.relative_to(root)).startswith(("run/", "var/lib/qwenhost/runs/"))
    ]
    return {str(path): str(path.readlink()) if path.is_symlink() else told(path) for path in kept}


def told(path: Path) -> tuple[str, int]:
    text = path.read_text().strip()
    words = re.search(r"\[(\w+)\]", text)
    return (words[1] if words else text, path.stat().st_mode)


def test_rollback_restores_files_and_settings(hands: Hands, changing: Path) -> None:
    before = tree(changing)
    change(changing)
    assert hands("end", MINE).status == 0
    undone = hands("rollback", {**OTHERS, "to": ""})
    assert undone.status == 0, undone.answer
    assert undone.answer["changed"]
    assert "vm.swappiness = 60" in undone.answer["after"]
    assert tree(changing) == before
    assert not (changing / "etc/systemd/system/vllm@a.service.d").exists()
    assert not (changing / "etc/qwenhost/vllm").exists()


def test_check_of_a_rollback_changes_nothing(hands: Hands, changing: Path) -> None:
    change(changing)
    before = tree(changing)
    preview = hands("rollback", {**MINE, "to": ""}, "--check")
    assert preview.answer["changed"]
    assert tree(changing) == before
    assert hands("runs", {}).answer["runs"]


def test_rollback_to_a_run_undoes_all_later_ones(hands: Hands, changing: Path) -> None:
    before = tree(changing)
    change(changing)
    hands("end", MINE)
    later(changing, "one", seconds=-60)
    hands("begin", OTHERS)
    put(changing / SYSCTL, "vm.swappiness = 5\n")
    hands("end", OTHERS)
    assert [run["run"] for run in hands("runs", {}).answer["runs"]] == ["one", "two"]
    assert hands("rollback", {**MINE, "to": "one"}).status == 0
    assert tree(changing) == before
    assert hands("runs", {}).answer["runs"] == []


def later(root: Path, run: str, seconds: int) -> None:
    """Move the time of a kept run."""
    path = root / "var/lib/qwenhost/runs" / f"{run}.json"
    kept = json.loads(path.read_text())
    kept["at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    path.write_text(json.dumps(kept))


def test_second_begin_of_a_run_keeps_the_first_state(hands: Hands, changing: Path) -> None:
    before = tree(changing)
    change(changing)
    assert hands("begin", MINE).answer == hands("end", MINE).answer
    assert hands("rollback", {**MINE, "to": ""}).status == 0
    assert tree(changing) == before


def test_another_run_is_told_who_holds_the_host(hands: Hands, changing: Path) -> None:
    for act in ("begin", "rollback"):
        answer = hands(act, {**OTHERS, "to": ""}).answer
        assert answer["held_by"]["controller"] == MINE["controller"]
        assert not answer["changed"]
    hands("end", OTHERS)
    assert "held_by" in hands("begin", OTHERS).answer
    hands("end", MINE)
    assert "held_by" not in hands("begin", OTHERS).answer


def test_lock_of_a_dead_run_is_taken_over(hands: Hands, changing: Path) -> None:
    assert "held_by" not in hands("begin", {**OTHERS, "dead": MINE["controller"]}).answer
    assert hands("begin", MINE).answer["held_by"]["run"] == "two"


@pytest.mark.parametrize("content", ["", "{", '{"run": "x"}', '{"run": "x", "controller": "y", "since": 0}'])
def test_broken_or_old_lock_holds_nothing(hands: Hands, root: Path, content: str) -> None:
    put(root / "run/qwenhost/lock", content)
    assert "held_by" not in hands("begin", MINE).answer
    assert "held_by" in hands("begin", OTHERS).answer


def test_begin_in_check_mode_leaves_nothing(hands: Hands, root: Path) -> None:
    assert hands("begin", MINE, "--check").status == 0
    assert not (root / "run").exists()
    assert not (root / "var").exists()


def test_state_is_read_by_root_alone(changing: Path) -> None:
    kept = changing / "var/lib/qwenhost/runs/one.json"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_old_runs_are_forgotten(hands: Hands, root: Path) -> None:
    for number in range(22):
        hands("begin", {**MINE, "run": f"run-{number:02}"})
        later(root, f"run-{number:02}", number)
    kept = [run["run"] for run in hands("runs", {}).answer["runs"]]
    assert len(kept) == 20
    assert kept[-1] == "run-21"


@pytest.mark.parametrize(
    ("request_of", "status", "words"),
    [
        ({"to": "../../etc/passwd"}, 1, "no run ../../etc/passwd is kept on this host (there are: one)"),
        ({"to": "three"}, 1, "there are: one"),
    ],
)
def test_unknown_run_is_refused(
    hands: Hands, changing: Path, request_of: dict[str, str], status: int, words: str
) -> None:
    ran = hands("rollback", {**MINE, **request_of})
    assert (ran.status, words in ran.answer["error"]) == (status, True)


def test_run_name_is_no_path(hands: Hands) -> None:
    assert hands("begin", {**MINE, "run": "../x"}).status == 2


def test_nothing_to_undo(hands: Hands, root: Path) -> None:
    ran = hands("rollback", {**MINE, "to": ""})
    assert (ran.status, ran.answer["changed"]) == (0, False)


def files_of_roles() -> set[str]:
    """Every path below /etc, /usr/local or /var/lib in the roles' variables and tasks."""
    found: set[str] = set()
    for path in ROLES.glob("*/*/*.yml"):
        if path.parent.name in ("vars", "tasks"):
            written = re.findall(r"(?<![\w/}])/(?:etc|usr/local|var/lib)/[\w./@-]+", path.read_text())
            found |= {found.rstrip(".") for found in written}
    return found


def test_everything_that_roles_write_is_owned() -> None:
    """A role's file that a rollback does not know would stay behind."""
    patterns = [f"/{pattern.replace('**', '*')}" for pattern in owned.PATHS]
    paths = files_of_roles()
    assert "/etc/sysctl.d/90-qwenhost.conf" in paths
    for path in paths:
        begun = (path, f"{path}/x", f"{path}/x.applied", f"{path}vllm@x.service.d/x", f"{path}qwenhost-x.service")
        assert any(fnmatch(one, pattern) for one in begun for pattern in patterns), path
