"""SSH servers on loopback, one process per host, with keys and an inventory of their own."""

from __future__ import annotations

import getpass
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.transports.conftest import ADDRESS, PRIVILEGE_SEPARATION, started

HOST = """    host{number}:
      ansible_host: {address}
      ansible_port: {port}
      ansible_user: {user}
      ansible_ssh_private_key_file: {folder}/user_key
      ansible_ssh_common_args: -o UserKnownHostsFile={folder}/known_hosts
"""


@dataclass(frozen=True)
class Fleet:
    """Running servers; `logins` are the commands that log in on each and do nothing."""

    inventory: Path
    logins: tuple[tuple[str, ...], ...]

    def log_in(self) -> None:
        """Log in on all at once."""
        for process in [subprocess.Popen(login, stderr=subprocess.DEVNULL) for login in self.logins]:
            if process.wait():
                raise SystemExit("ssh did not get in")


@contextmanager
def fleet(count: int) -> Iterator[Fleet]:
    """Start `count` servers; end them afterwards."""
    PRIVILEGE_SEPARATION.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, str(number)) for number in range(count)]
        servers = [_started(folder) for folder in folders]
        try:
            yield Fleet(_inventory(Path(name), folders, [port for port, _ in servers]), _logins(folders, servers))
        finally:
            for _, process in servers:
                process.terminate()
                process.wait()


def _started(folder: Path) -> tuple[int, subprocess.Popen[bytes]]:
    folder.mkdir()
    return started(folder)


def _inventory(place: Path, folders: list[Path], ports: list[int]) -> Path:
    hosts = (
        HOST.format(number=number, address=ADDRESS, port=port, user=getpass.getuser(), folder=folder)
        for number, (folder, port) in enumerate(zip(folders, ports, strict=True))
    )
    (place / "hosts.yml").write_text("all:\n  hosts:\n" + "".join(hosts))
    return place / "hosts.yml"


def _logins(
    folders: list[Path], servers: list[tuple[int, subprocess.Popen[bytes]]]
) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            *("ssh", "-F", "none", "-p", str(port), "-i", f"{folder}/user_key", "-o", "BatchMode=yes"),
            *("-o", f"UserKnownHostsFile={folder}/known_hosts", f"{getpass.getuser()}@{ADDRESS}", "true"),
        )
        for folder, (port, _) in zip(folders, servers, strict=True)
    )
