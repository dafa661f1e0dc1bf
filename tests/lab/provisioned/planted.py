"""Secrets of a host's inventory, and who is seen with them while a run lasts."""

from __future__ import annotations

import base64
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qwenhost.lab.layout import Lab
from tests.lab.commands import SCRIPTS, on

HOST = "lab1"
API_KEY = "sk-Pl4nted-9fQ2mX7vTz01"
BECOME = "become-Pl4nted-5hK8wR3"
VAULT = "vault-Pl4nted-6tB4nE9"
SECRETS = (API_KEY, BECOME, VAULT)

SERVICE = b"CREDENTIALS_DIRECTORY=/run/credentials/vllm@"
"""In the environment of vLLM and its children alone; its key is there, too, for root and its own user to read."""

PAUSE_SECONDS = 0.1
"""Between two looks, so that the run that is watched has both cores for most of the time."""

ANSIBLE_FILES = Path.home() / ".ansible"


def plant(inventory: Path) -> Path:
    """Let an operator whose sudo wants a password set the host up, with a key; return the vault's password."""
    text = inventory.read_text()
    wheels = "        wheels: /srv/wheelhouse\n"
    inventory.write_text(text.replace(wheels, f"{wheels}        api_key_file: planted_key\n", 1))
    inventory.with_name("planted_key").write_text(f"{API_KEY}\n")
    folder = inventory.parent / "host_vars" / HOST
    folder.mkdir(parents=True)
    folder.joinpath("user.yml").write_text("ansible_user: operator\nansible_become: true\n")
    secret = folder / "secret.yml"
    secret.write_text(f"ansible_become_password: {BECOME}\n")
    password = inventory.with_name("vault_password")
    password.write_text(f"{VAULT}\n")
    encrypt = [f"{SCRIPTS}/ansible-vault", "encrypt", "--vault-password-file", password, secret]
    subprocess.run(encrypt, check=True, capture_output=True)
    return password


def want_a_password(lab: Lab) -> None:
    """Have the operator's sudo ask for a password."""
    on(lab, HOST, f"sed -i 's/NOPASSWD: *//' /etc/sudoers.d/*; echo operator:{BECOME} | chpasswd")


def forms(secret: str) -> tuple[bytes, ...]:
    """Return a secret as it is, and as base64 wherever in a text it begins."""
    shifted = (base64.b64encode(bytes(shift) + secret.encode())[8:-8] for shift in range(3))
    return (secret.encode(), *shifted)


def secrets_in(content: bytes) -> list[str]:
    return [secret for secret in SECRETS if any(form in content for form in forms(secret))]


@contextmanager
def watched() -> Iterator[set[str]]:
    """Look at arguments and environments of all processes, hosts' too, and at Ansible's files, again and again.

    Yields what was seen with a secret: its place, and the process's user and name.
    """
    seen: set[str] = set()
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(seen, ended))
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def _watch(seen: set[str], ended: threading.Event) -> None:
    while not ended.wait(PAUSE_SECONDS):
        for process in Path("/proc").glob("[0-9]*"):
            for place in ("cmdline", "environ"):
                content = _read(process / place)
                if secrets_in(content) and SERVICE not in content:
                    seen.add(f"{place} of {_read(process / 'comm').decode().strip()}")
        for folder in (*Path(tempfile.gettempdir()).glob("qwenhost-run-*"), ANSIBLE_FILES):
            with suppress(OSError):  # it may go meanwhile
                seen |= {str(path) for path in folder.rglob("*") if secrets_in(_read(path))}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() and not path.is_socket() else b""
    except OSError:
        return b""
