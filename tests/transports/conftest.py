"""A real sshd on loopback, with keys and configuration of its own."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from qwenhost.records.host import Host

SSHD = Path("/usr/sbin/sshd")
PRIVILEGE_SEPARATION = Path("/run/sshd")
ADDRESS = "127.0.0.1"

CONFIG = """
ListenAddress {address}:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
"""

NOISY = 'command="echo Welcome to this host; eval \\"$SSH_ORIGINAL_COMMAND\\"" '
"""What a shell that greets at login does to the output."""


@dataclass(frozen=True)
class Server:
    """A running sshd; `folder` holds its keys: user_key and noisy_key are let in, other_key is not."""

    port: int
    folder: Path

    def host(self, **changes: object) -> Host:
        """Return how to reach it."""
        host = Host(
            "lab1",
            address=ADDRESS,
            port=self.port,
            user=pwd.getpwuid(os.geteuid()).pw_name,
            key_file=str(self.folder / "user_key"),
            known_hosts_file=str(self.folder / "known_hosts"),
        )
        return replace(host, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start sshd and end it after the tests."""
    if not SSHD.exists():
        pytest.skip("openssh-server is not installed")
    if pwd.getpwuid(os.geteuid()).pw_shell.endswith(("nologin", "false")):
        pytest.skip("this user may not log in")
    if os.geteuid() == 0:
        PRIVILEGE_SEPARATION.mkdir(exist_ok=True)
    folder = tmp_path_factory.mktemp("sshd")
    port, process = started(folder)
    yield Server(port, folder)
    process.terminate()
    process.wait()


def started(folder: Path, *settings: str) -> tuple[int, subprocess.Popen[bytes]]:
    """Start sshd with keys of its own in a folder, and further settings; return its port and its process."""
    port = _free_port()
    _write_keys(folder, port)
    config = folder / "sshd_config"
    config.write_text("\n".join([CONFIG.format(address=ADDRESS, port=port, folder=folder), *settings, ""]))
    process = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL)
    _wait_for(port, process)
    return port, process


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


def _write_keys(folder: Path, port: int) -> None:
    for name in ("host_key", "user_key", "noisy_key", "other_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    public = {
        name: (folder / f"{name}.pub").read_text() for name in ("host_key", "user_key", "noisy_key", "other_key")
    }
    (folder / "authorized_keys").write_text(public["user_key"] + NOISY + public["noisy_key"])
    (folder / "known_hosts").write_text(f"[{ADDRESS}]:{port} {public['host_key']}")
    (folder / "changed_hosts").write_text(f"[{ADDRESS}]:{port} {public['other_key']}")
    (folder / "empty_hosts").write_text("")


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((ADDRESS, port)) == 0:
                return
        time.sleep(0.02)
    pytest.fail("sshd did not start")
