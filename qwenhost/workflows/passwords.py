"""Passwords of a vault, a connection or sudo: out of files as Ansible names them, or out of memory after a prompt.

None is ever an argument or the value of an environment variable: those name files only.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from qwenhost.records.errors import QwenhostError

VAULT = "ANSIBLE_VAULT_PASSWORD_FILE"
CONNECTION = "ANSIBLE_CONNECTION_PASSWORD_FILE"
BECOME = "ANSIBLE_BECOME_PASSWORD_FILE"
VAULT_IDENTITIES = "ANSIBLE_VAULT_IDENTITY_LIST"

DEFAULT_IDENTITY = "default"


def keep_in_memory(variable: str, password: str) -> None:
    """Put a password into a file without a name, and that file into Ansible's variable for it.

    Only processes of this user can open it, as long as this one lives.
    """
    descriptor = os.memfd_create("qwenhost")
    os.fchmod(descriptor, 0o600)  # an executable one would be run
    os.write(descriptor, password.encode() + b"\n")
    os.environ[variable] = f"/proc/{os.getpid()}/fd/{descriptor}"


def name_file(variable: str, path: Path) -> None:
    """Have Ansible read a password from a file or a program; a pipe, which is read once, is kept in memory."""
    try:
        if stat.S_ISFIFO(path.stat().st_mode):
            keep_in_memory(variable, path.read_text(encoding="utf-8").strip())
        else:
            os.environ[variable] = str(path.resolve())
    except OSError as error:
        raise QwenhostError(f"password file {path}: {error.strerror}") from error


def vault_secrets(loader: Any) -> list[tuple[str, Any]]:
    """Return the vault passwords that Ansible's settings name, as its loader wants them."""
    from ansible import constants
    from ansible.parsing.vault import get_file_vault_secret

    named = [*constants.DEFAULT_VAULT_IDENTITY_LIST]
    named += [constants.DEFAULT_VAULT_PASSWORD_FILE] if constants.DEFAULT_VAULT_PASSWORD_FILE else []
    secrets = []
    for one in map(str, named):
        identity, _, place = one.rpartition("@")
        secret = get_file_vault_secret(filename=place, vault_id=identity or DEFAULT_IDENTITY, loader=loader)
        secret.load()
        secrets.append((identity or DEFAULT_IDENTITY, secret))
    return secrets


@cache
def become_password() -> str:
    """Return sudo's password out of the file that Ansible's settings name; empty where they name none."""
    from ansible import constants

    return _content(constants.BECOME_PASSWORD_FILE)


@cache
def connection_password() -> str:
    """Return the password of the connection out of the file that Ansible's settings name."""
    from ansible import constants

    return _content(constants.CONNECTION_PASSWORD_FILE)


def _content(name: str | None) -> str:
    """Return what is in a file, or what a program prints."""
    if not name:
        return ""
    path = Path(name).expanduser()
    try:
        if os.access(path, os.X_OK):
            return subprocess.run([path], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        return path.read_text(encoding="utf-8").strip()
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise QwenhostError(f"password file {path}: {reason}") from error


def password_files() -> Mapping[str, str]:
    """Return the settings above as environment variables, for a run with another ansible.cfg."""
    from ansible import constants

    named = {
        VAULT: constants.DEFAULT_VAULT_PASSWORD_FILE,
        VAULT_IDENTITIES: ",".join(map(str, constants.DEFAULT_VAULT_IDENTITY_LIST)),
        BECOME: constants.BECOME_PASSWORD_FILE,
        CONNECTION: constants.CONNECTION_PASSWORD_FILE,
    }
    return {variable: str(value) for variable, value in named.items() if value}
