"""A lab's SSH keys: made once, kept when it goes down, so that inventories and known_hosts stay right."""

from __future__ import annotations

from pathlib import Path

from qwenhost.lab.commands import run
from qwenhost.lab.layout import Lab, LabHost


def ensure_keys(lab: Lab, hosts: list[LabHost]) -> None:
    """Make the lab's key and the hosts' keys where they are missing, and write known_hosts."""
    lab.folder.mkdir(parents=True, exist_ok=True)
    lab.folder.joinpath("host-keys").mkdir(mode=0o700, exist_ok=True)
    _ensure_key(lab.key, f"{lab.name} lab")
    for host in hosts:
        _ensure_key(host.host_key, host.name)
    known = sorted(lab.folder.glob("host-keys/lab*.pub"), key=lambda path: int(path.stem.removeprefix("lab")))
    lab.known_hosts.write_text("".join(known_line(lab.named(path.stem), path.read_text()) for path in known))


def public(key: Path) -> str:
    """The text of the public half of a key."""
    return key.with_name(f"{key.name}.pub").read_text()


def known_line(host: LabHost, public_key: str) -> str:
    """The host's line of known_hosts."""
    kind, key = public_key.split()[:2]
    return f"{host.address} {kind} {key}\n"


def ssh_command(host: LabHost, user: str = "root") -> list[str]:
    """An ssh call to the host, with its key checked against the lab's known_hosts."""
    return ["ssh", *ssh_options(host.lab), f"{user}@{host.address}"]


def ssh_options(lab: Lab) -> list[str]:
    """Options by which the lab's key opens a host, whose own key the lab's known_hosts has."""
    options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "StrictHostKeyChecking=yes"]
    options += ["-o", f"UserKnownHostsFile={lab.known_hosts}"]
    return ["-F", "none", "-i", str(lab.key), *options]


def _ensure_key(path: Path, comment: str) -> None:
    if not path.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path))
