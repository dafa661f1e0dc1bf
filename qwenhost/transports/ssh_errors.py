"""What went wrong on the way to a host, in one line, with what to do about it."""

from __future__ import annotations

import socket

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from qwenhost.records.errors import HostUnreachable
from qwenhost.records.host import Host
from qwenhost.transports.ssh_options import SshOptions

NOT_FOUND = 127
"""Exit code of a shell that does not find a command."""


def cannot_connect(host: Host, options: SshOptions, error: Exception) -> HostUnreachable:
    """Return the error for a connection that did not come about."""
    place = f"{options.address}:{options.port or 22}"
    who = f"user {options.user}" if options.user else "the current user"
    files = ", ".join(options.known_hosts_files) or "~/.ssh/known_hosts"
    message, hint = _why(error, place, who, files)
    return HostUnreachable(f"{host.name}: {message}", hint=hint)


def _why(error: Exception, place: str, who: str, files: str) -> tuple[str, str]:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, paramiko.BadHostKeyException):
        return (
            f"the host key of {place} has changed",
            f"if it was reinstalled, remove its old key from {files}; if not, somebody may be in between",
        )
    if isinstance(error, paramiko.SSHException) and "not found in known_hosts" in text:
        return f"the host key of {place} is not known", f"compare its fingerprint, then add it to {files}"
    if isinstance(error, paramiko.AuthenticationException):
        return f"{place} does not let {who} in: {text}", "check ansible_user and the private key"
    if isinstance(error, FileNotFoundError):
        return (
            f"file not found: {error.filename}",
            "the inventory names a key or known_hosts file that is not there",
        )
    if isinstance(error, NoValidConnectionsError):
        return f"{place} refuses the connection", "is sshd running, and is this the right port?"
    if isinstance(error, socket.gaierror):
        return f"no address for {place.rsplit(':', 1)[0]}", "check ansible_host and DNS"
    if isinstance(error, TimeoutError):
        return f"{place} does not answer in time", "is the host up, and may this machine reach it?"
    if "banner" in text or "No existing session" in text:
        return f"no SSH server answers at {place}", "check the port, and what is in between (jump host, proxy)"
    return f"SSH to {place} failed: {text}", "try the same with ssh -v"


def cannot_run(host: Host, code: int, messages: bytes) -> HostUnreachable:
    """Return the error for a command that ended with `code`, with its messages."""
    lines = [line for line in messages.decode("utf-8", "replace").splitlines() if line.strip()]
    last = lines[-1].strip() if lines else f"exit code {code}, no message"
    python = host.python or "python3"
    if host.become and last.startswith("sudo:") and "command not found" not in last:
        return HostUnreachable(
            f"{host.name}: sudo -n does not work for {host.user or 'the current user'}: {last}",
            hint="allow it without a password, connect as root, or set ansible_become: false and see less",
        )
    if "python too old" in last:
        return HostUnreachable(
            f"{host.name}: {last}", hint="set ansible_python_interpreter to a Python 3.8 or newer"
        )
    if code == NOT_FOUND or "command not found" in last or "No such file or directory" in last:
        return HostUnreachable(
            f"{host.name}: {python} is not there: {last}",
            hint="install Python 3.8 or newer, or set ansible_python_interpreter",
        )
    return HostUnreachable(f"{host.name}: the probe failed: {last}", hint="")
