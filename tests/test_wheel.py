"""What `pip install` brings, used outside of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked as pip does it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, CHECKOUT]
    subprocess.run(command, check=True)
    zipfile.ZipFile(next(folder.glob("*.whl"))).extractall(folder / "site")
    return folder / "site"


def run(installed: Path, *command: str | Path, **environment: str) -> str:
    """Run a command with the unpacked wheel in front of the checkout; return its output."""
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    clean = {**os.environ, "PYTHONPATH": str(installed), "PATH": path, **environment}
    ran = subprocess.run(command, cwd=installed.parent, env=clean, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.strip()


def test_playbooks_of_the_wheel_are_whole(installed: Path, tmp_path: Path) -> None:
    playbooks = Path(run(installed, "qwenhost", "path", "playbooks"))
    assert installed in playbooks.parents
    assert {path.name for path in playbooks.glob("*.yml")} == {
        path.name for path in (CHECKOUT / "playbooks").glob("*.yml")
    }
    run(installed, "qwenhost", "init", tmp_path / "inventory")
    config = run(installed, "qwenhost", "path", "ansible.cfg")
    for playbook in sorted(playbooks.glob("*.yml")):
        check = ("ansible-playbook", "--syntax-check", "-i", tmp_path / "inventory", playbook)
        run(installed, *check, ANSIBLE_CONFIG=config)


def test_data_of_the_wheel_is_whole(installed: Path) -> None:
    shipped = {str(path.relative_to(installed)) for path in (installed / "qwenhost/data").rglob("*.yaml")}
    assert shipped == {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "qwenhost/data").rglob("*.yaml")}
    assert "gpu.count" in run(installed, "qwenhost", "checks")
