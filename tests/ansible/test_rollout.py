"""The play's own limit of failures, for those who run it without the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORK = [
    {"name": "Work", "ansible.builtin.fail": {"msg": "broken"}, "when": "inventory_hostname in ['h1', 'h3']"},
    {"name": "Done", "ansible.builtin.debug": {"msg": "done by {{ inventory_hostname }}"}},
]


def played(playbook: Path, hosts: str, *switches: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [program, "-i", hosts, "-c", "local", *switches, playbook],
        capture_output=True,
        text=True,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("max_fail", "done"), [(0, ["h2"]), (1, ["h2", "h4"])])
def test_no_batch_works_when_more_hosts_have_failed_than_may(
    tmp_path: Path, max_fail: int, done: list[str]
) -> None:
    """The head of the play is as it is; stand-ins do the work. Batches of two, h1 and h3 fail."""
    (play,) = yaml.safe_load((ROOT / "playbooks/provision.yml").read_text())
    play["tasks"][1:] = WORK
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    switches = ["-e", "qwenhost_serial=2", "-e", f"qwenhost_max_fail={max_fail}"]
    ran = played(tmp_path / "play.yml", "h1,h2,h3,h4,h5,h6,", *switches)
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert re.findall(r"done by (h\d)", ran.stdout) == done
    assert "not begun, for these failed before: " in ran.stdout


@pytest.mark.slow
def test_tags_do_not_end_in_a_run_that_does_nothing() -> None:
    ran = played(ROOT / "playbooks/provision.yml", "h1,", "--tags", "host_tuning")
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert "no tags here: run playbooks/tune.yml" in ran.stdout
