"""MIG on a booted host from a file of mig-parted: previewed, refused, drained, killed, repeated, taken back."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from qwenhost.lab import lifecycle
from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import Lab
from qwenhost.lab.lifecycle import Simulated
from qwenhost.lab.simulator import install
from tests.lab.commands import CHECKOUT, QWENHOST, Command, alarms, bare_inventory, changes, empty, on, run

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root")]

LAB = Lab("part")
GPUS = 4
LIMIT_SECONDS = 120

FILE = """\
version: v1
mig-configs:
  halves:
    - device-filter: ["0x20B210DE", "0x20B510DE"]
      devices: [0]
      mig-enabled: true
      mig-devices: {"3g.40gb": 2}
    - devices: [1, 2]
      mig-enabled: false
  whole:
    - devices: all
      mig-enabled: false
"""

HOLDER = """
import signal, os
from a100sim import state
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
with state.change() as values:
    values["gpu0.clients"] = str(os.getpid()) + "/nv-hostengine/512"
print("watching", flush=True)
signal.sigwait({signal.SIGTERM})
os.environ.get("SLOW") and signal.sigtimedwait({signal.SIGUSR1}, 60)
with state.change() as values:
    values["gpu0.clients"] = ""
"""

UNIT = """
[Service]
Environment=PYTHONPATH=/usr/lib/a100sim
ExecStart=/usr/bin/python3 -S /usr/local/bin/holder.py
[Install]
WantedBy=multi-user.target
"""

DEVICES = "nvidia-smi -L | grep -c 'MIG 3g.40gb' || true"
SERVICES = "systemctl is-active nvidia-dcgm nvidia-persistenced || true"
RECORD = "/run/qwenhost/drained.json"
SLOW = Path("/run/systemd/system/nvidia-dcgm.service.d/slow.conf")
"""Makes the holder take a minute to stop, or until SIGUSR1."""


@dataclass(frozen=True)
class Host:
    """A host whose GPU 0 is held by a stand-in of DCGM's host engine."""

    folder: Path

    def inventory(self, config: str, drain: bool) -> str:
        wanted = {"file": "mig.yaml", "config": config}
        path = bare_inventory(
            LAB, self.folder, qwenhost_gpus=GPUS, qwenhost_mig_config=wanted, qwenhost_drain=drain
        )
        return str(path)

    def provision(self, config: str, *options: str, drain: bool = True) -> Command:
        return run(QWENHOST, "provision", self.inventory(config, drain), "--yes", "--json", *options)

    def doctor(self, config: str) -> dict[str, str]:
        done = run(QWENHOST, "doctor", "-i", self.inventory(config, True), "--json", "--no-state")
        return alarms(done.report["hosts"][0]["findings"])

    def says(self, command: str) -> list[str]:
        return on(LAB, "lab1", command).splitlines()

    def until(self, command: str) -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while run(*ssh_command(LAB.named("lab1"), "root"), command).code != 0:
            assert time.monotonic() < deadline, command


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with empty(LAB):
        lifecycle.up(LAB, 1, Simulated("a100-sxm4-80gb", GPUS), install)
        folder = tmp_path_factory.mktemp("inventory")
        (folder / "mig.yaml").write_text(FILE)
        made = Host(folder)
        made.says(
            f"cat > /usr/local/bin/holder.py <<'X'\n{HOLDER}\nX\n"
            f"cat > /etc/systemd/system/nvidia-dcgm.service <<'X'\n{UNIT}\nX\n"
            "systemctl enable -q --now nvidia-dcgm"
        )
        made.until("grep -q hostengine /var/lib/a100sim/state")
        yield made


def test_a_holder_that_may_not_be_stopped_is_named(host: Host) -> None:
    refused = host.provision("halves", drain=False)
    assert refused.code == 1
    told = next(line for line in refused.messages.splitlines() if "held by" in line)
    assert "gpu 0 is held by process" in told and "of nvidia-dcgm.service" in told
    assert "qwenhost_drain: true" in told
    assert host.says(DEVICES) == ["0"]
    assert host.says(SERVICES) == ["active", "active"]


def test_the_preview_shows_the_layout_before_and_after(host: Host) -> None:
    preview = host.provision("halves", "--check", "--diff")
    assert preview.code == 1  # as the host is: not as declared
    for line in (
        "-gpu 0: MIG off",
        "-nvidia-dcgm.service runs",
        "+gpu 0: MIG on: 3g.40gb, 3g.40gb",
        "+nvidia-dcgm.service runs again, stopped meanwhile",
    ):
        assert line in preview.messages
    assert "gpu 3" not in preview.messages  # no entry names it
    assert host.says(DEVICES) == ["0"]
    assert host.says(SERVICES) == ["active", "active"]


def test_a_drain_that_is_killed_is_told_and_ended_by_the_next_run(host: Host) -> None:
    host.says(f"mkdir -p {SLOW.parent}; printf '[Service]\\nEnvironment=SLOW=1\\n' > {SLOW}")
    host.says("systemctl daemon-reload; systemctl restart nvidia-dcgm")
    host.until("grep -q hostengine /var/lib/a100sim/state")
    command = [QWENHOST, "provision", host.inventory("halves", True), "--yes"]
    running = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    host.until(f"grep -q dcgm {RECORD}")
    killed = host.says("pgrep -f '^[^ ]*python3.* mig$'")
    host.says(f"kill -9 {killed[0]}")
    told, _ = running.communicate(timeout=LIMIT_SECONDS)
    print(f"killed the hands while they drained: {killed}\n{told}")
    assert running.returncode == 1
    (line,) = (line for line in told.splitlines() if line.startswith("lab1  failed"))
    assert "the hands gave no answer (exit 137)" in line
    host.says(f"rm {SLOW}; systemctl daemon-reload; pkill -USR1 -f holder.py")
    host.until("! systemctl is-active -q nvidia-dcgm")
    assert host.says(SERVICES)[0] != "active"
    assert host.doctor("halves").keys() == {"mig.drained", "mig.mode"}
    again = host.provision("halves")
    assert again.code == 0, again.messages
    assert host.says(DEVICES) == ["2"]
    assert host.says(SERVICES) == ["active", "active"]
    assert host.says(f"ls {RECORD} 2>/dev/null || true") == []


def test_converged_is_converged(host: Host) -> None:
    again = host.provision("halves")
    assert again.messages.splitlines() == ["lab1: nothing to change"]
    assert host.doctor("halves") == {}


def test_back_to_no_mig(host: Host) -> None:
    host.until("grep -q hostengine /var/lib/a100sim/state")
    done = host.provision("whole")
    assert done.code == 0, done.messages
    assert set(changes(done)["lab1"]) == {"gpu_partitions"}
    assert host.says(DEVICES) == ["0"]
    assert host.says(SERVICES) == ["active", "active"]
    assert (
        host.says("ls /etc/systemd/system/qwenhost-mig.service /etc/qwenhost/mig.json 2>/dev/null || true") == []
    )
