"""What went wrong on the way to a host, in one line, with what to do about it."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

import paramiko
from paramiko.ssh_exception import IncompatiblePeer, NoValidConnectionsError

from qwenhost.records.errors import HostUnreachable
from qwenhost.records.host import Host
from qwenhost.transports.ssh_options import SSH_PORT, SshOptions

NOT_FOUND = 127
"""Exit code of a shell that does not find a command."""

NO_EXIT_CODE = -1
"""What paramiko returns for a command whose channel was closed without one."""

NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH)

Told = tuple[str, str]
"""A message and its hint; an empty message where a rule does not know the error."""

UNKNOWN: Told = ("", "")


@dataclass(frozen=True)
class Leg:
    """One connection on the way: to the host itself, or to a jump host; `goodbye` is what its server said last."""

    options: SshOptions
    goodbye: str = ""

    @property
    def place(self) -> str:
        """Address and port."""
        return f"{self.options.address}:{self.options.port or SSH_PORT}"

    @property
    def who(self) -> str:
        """The user that logs in."""
        return f"user {self.options.user}" if self.options.user else "the current user"

    @property
    def known_hosts(self) -> str:
        """The files with the keys of known hosts."""
        return ", ".join(self.options.known_hosts_files) or "~/.ssh/known_hosts"

    @property
    def proof(self) -> str:
        """What the user is let in for."""
        if self.options.password:
            return "the password"
        keys = ", ".join(self.options.key_files)
        return f"the key {keys}" if keys else "the agent's keys and those in ~/.ssh"


def cannot_connect(host: Host, leg: Leg, error: Exception) -> HostUnreachable:
    """Return the error for a connection that did not come about, on the leg that failed."""
    rules = (_of_its_goodbye, _of_the_network, _of_host_keys, _of_the_login, _of_the_protocol)
    text = " ".join(str(error).split()) or type(error).__name__
    otherwise = (f"SSH to {leg.place} failed: {text}", "try the same with ssh -v")
    message, hint = next((told for rule in rules if (told := rule(error, leg))[0]), otherwise)
    return HostUnreachable(f"{host.name}: {message}", hint=hint)


def _of_its_goodbye(error: Exception, leg: Leg) -> Told:
    if "too many authentication failures" in leg.goodbye.lower():
        hint = "name the key by ansible_ssh_private_key_file, or take keys out of the agent (ssh-add -d)"
        return f"{leg.place} broke off after too many keys or passwords that it does not take", hint
    if leg.goodbye:
        return f"{leg.place} broke off: {leg.goodbye}", "its log says why: journalctl -u ssh"
    return UNKNOWN


def _of_the_network(error: Exception, leg: Leg) -> Told:
    if isinstance(error, socket.gaierror):
        return f"no address for {leg.options.address}", "check ansible_host and DNS"
    if isinstance(error, paramiko.ChannelException):
        return (
            f"the jump host cannot reach {leg.place}: {error.text}",
            "is the host up, and may the jump host go there?",
        )
    if isinstance(error, paramiko.ProxyCommandFailure):
        return f"the proxy command to {leg.place} ended: {error.error or 'without a word'}", "try it by hand"
    if isinstance(error, FileNotFoundError):
        hint = "the inventory names a key or known_hosts file, or a proxy command, that is not there"
        return f"file not found: {error.filename}", hint
    if isinstance(error, PermissionError) and error.filename:
        return f"may not read {error.filename}", "run as its owner"
    codes = {cause.errno for cause in _causes(error) if isinstance(cause, OSError)}
    if codes & set(NO_ROUTE):
        return f"no route to {leg.place}", "is the host up, and is this its address?"
    if errno.ECONNREFUSED in codes:
        return f"{leg.place} refuses the connection", "is sshd running, and is this the right port?"
    return UNKNOWN


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error with those that it stands for."""
    within = list(error.errors.values()) if isinstance(error, NoValidConnectionsError) else []
    before = error.__cause__ or error.__context__
    return [error, *within, *(_causes(before) if before else [])]


def _of_host_keys(error: Exception, leg: Leg) -> Told:
    if isinstance(error, paramiko.BadHostKeyException):
        forget = f"ssh-keygen -R {_key_name(leg)} -f {leg.known_hosts}"
        return (
            f"the host key of {leg.place} has changed",
            f"if it was reinstalled: {forget}; if not, who is in between?",
        )
    if isinstance(error, paramiko.SSHException) and "not found in known_hosts" in str(error):
        hint = f"compare its fingerprint, then add it to {leg.known_hosts}"
        return f"the host key of {leg.place} is not known", hint
    return UNKNOWN


def _key_name(leg: Leg) -> str:
    """Return how known_hosts files name a place."""
    port = leg.options.port or SSH_PORT
    return leg.options.address if port == SSH_PORT else f"'[{leg.options.address}]:{port}'"


def _of_the_login(error: Exception, leg: Leg) -> Told:
    text = str(error)
    if isinstance(error, paramiko.PasswordRequiredException):
        return f"the key for {leg.place} has a passphrase", "give it to an agent: ssh-add"
    if "private key" in text.lower():
        return f"the key for {leg.place} cannot be read: {text}", "name a private key, not its .pub"
    if "No authentication methods" in text:
        return (
            f"no key and no password to log in to {leg.place}",
            "set ansible_ssh_private_key_file, or ssh-add one",
        )
    if not isinstance(error, paramiko.AuthenticationException) or "EOF" in text:
        return UNKNOWN
    if "timeout" in text:
        return f"{leg.place} does not answer in time to the login of {leg.who}", "is the host overloaded?"
    takes = (
        f"; it takes {', '.join(error.allowed_types)}" if isinstance(error, paramiko.BadAuthenticationType) else ""
    )
    refused = f"it does not take {leg.proof}{takes}"
    return (
        f"{leg.place} does not let {leg.who} in: {refused}",
        "check ansible_user and the private key or password",
    )


BUSY = "it may be starting or going down, or have too many logins at a time (MaxStartups); try again"


def _of_the_protocol(error: Exception, leg: Leg) -> Told:
    text, causes = str(error), _causes(error)
    if "Indecipherable" in text or "Invalid SSH banner" in text:
        return f"no SSH server answers at {leg.place}, but something else", "check the port"
    if isinstance(error, IncompatiblePeer):
        return f"{leg.place} speaks no SSH that is still safe: {text}", "update its sshd"
    if any(isinstance(cause, TimeoutError) for cause in causes):
        if "banner" in text:
            return f"no SSH server answers at {leg.place} in time", "check the port, and what is in between"
        return f"{leg.place} does not answer in time", "is the host up, and may this machine reach it?"
    if any(isinstance(cause, (EOFError, ConnectionError)) for cause in causes) or _was_cut(text):
        return f"{leg.place} closed the connection before the login was done", BUSY
    return UNKNOWN


def _was_cut(text: str) -> bool:
    return any(
        sign in text for sign in ("EOF", "banner", "No existing session", "not active", "Negotiation failed")
    )


def cut_off(host: Host, error: Exception | None = None) -> HostUnreachable:
    """Return the error for a connection that was open, and then was not."""
    place = host.address or host.name
    if isinstance(error, paramiko.ChannelException):
        hint = "its sshd allows no more of them (MaxSessions), or this user none"
        return HostUnreachable(f"{host.name}: {place} opens no channel: {error.text}", hint=hint)
    told = f"{host.name}: the connection to {place} was cut before the answer came"
    return HostUnreachable(told, hint="the host or the network may have gone down; run it again")


def cannot_run(host: Host, code: int, messages: bytes) -> HostUnreachable:
    """Return the error for a command that ended with `code`, with its messages."""
    if code == NO_EXIT_CODE:
        return cut_off(host)
    lines = [line for line in messages.decode("utf-8", "replace").splitlines() if line.strip()]
    last = lines[-1].strip() if lines else f"exit code {code}, no message"
    message, hint = _of_sudo(host, last) if host.become else UNKNOWN
    if not message:
        message, hint = _of_python(host, code, last)
    return HostUnreachable(f"{host.name}: {message}", hint=hint)


def _of_sudo(host: Host, last: str) -> Told:
    who = host.user or "the current user"
    if "sudo: command not found" in last or "sudo: not found" in last:
        return f"sudo is not there: {last}", "install it, or connect as root and leave out ansible_become"
    if "password is required" in last:
        hint = (
            "add --ask-become-pass, set ansible_become_password in a vault, or allow sudo without one (NOPASSWD)"
        )
        return f"sudo -n does not work for {who}: {last}", hint
    if "not in the sudoers" in last or "is not allowed to" in last:
        return f"{who} may not use sudo: {last}", "allow it in /etc/sudoers.d, or connect as root"
    if last.startswith("sudo:") and "command not found" not in last:
        return f"sudo does not work for {who}: {last}", "try it by hand: sudo -n true"
    return UNKNOWN


def _of_python(host: Host, code: int, last: str) -> Told:
    python = host.python or "python3"
    if "python too old" in last:
        return last, "set ansible_python_interpreter to a Python 3.8 or newer"
    if code == NOT_FOUND or "not found" in last or "No such file or directory" in last:
        return f"{python} is not there: {last}", "install Python 3.8 or newer, or set ansible_python_interpreter"
    if "Permission denied" in last and python in last:
        return f"{python} cannot be run: {last}", "set ansible_python_interpreter to a Python 3.8 or newer"
    return f"the probe failed: {last}", ""


def wrong_become_password(host: Host) -> HostUnreachable:
    """Return the error for a password that sudo does not take."""
    who = host.user or "the current user"
    told = f"{host.name}: sudo does not take the become password of {who}"
    return HostUnreachable(told, hint="check ansible_become_password, or what was typed")
