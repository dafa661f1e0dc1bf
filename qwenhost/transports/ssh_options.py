"""How to reach a host: what the inventory says, with the OpenSSH options among it that also apply here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from qwenhost.records.host import Host

SHORT = {"-J": "proxyjump", "-p": "port", "-i": "identityfile", "-l": "user", "-F": "configfile"}
SSH_PORT = 22
LENIENT = ("no", "off", "accept-new")


@dataclass(frozen=True)
class SshOptions:
    """Everything a connection needs. `jumps`: jump hosts in order, as OpenSSH writes them."""

    address: str
    port: int | None
    user: str | None
    key_files: tuple[str, ...] = ()
    known_hosts_files: tuple[str, ...] = ()
    jumps: tuple[str, ...] = ()
    proxy_command: str = ""
    accept_unknown_keys: bool = False
    config_file: str = ""
    password: str = field(default="", repr=False)

    def to_jump_host(self, jump: str, before: Iterable[str]) -> SshOptions:
        """Return how to reach a jump host `user@host:port`, with the same keys and known hosts."""
        user, address, port = _parts_of(jump)
        return replace(
            self, address=address, user=user, port=port, jumps=tuple(before), proxy_command="", password=""
        )


def read_options(host: Host) -> SshOptions:
    """Join the host's inventory values with its OpenSSH options; the inventory's own values win.

    Raises ValueError for a port or a jump host that is none.
    """
    given: dict[str, list[str]] = {}
    for key, value in _pairs(host.ssh_args):
        given.setdefault(key, []).append(value)
    first = {key: values[0] for key, values in given.items()}
    port = host.port or _port(first.get("port", ""))
    jump = first.get("proxyjump", "")
    address, user = host.address or host.name, host.user or first.get("user")
    return SshOptions(
        address=address,
        port=port,
        user=user,
        key_files=tuple([host.key_file] if host.key_file else given.get("identityfile", [])),
        known_hosts_files=_known_hosts(host, first.get("userknownhostsfile", "")),
        jumps=_jumps(jump),
        proxy_command=_expanded(first.get("proxycommand", ""), address, str(port or SSH_PORT), user or ""),
        accept_unknown_keys=first.get("stricthostkeychecking", "") in LENIENT,
        config_file=first.get("configfile", ""),
        password=host.password,
    )


JUMP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@\s]+)@)?(?P<address>\[[^\]\s]+\]|[^:/\s\[\]]+)(?::(?P<port>.*?))?/?")
"""As OpenSSH has it: an IPv6 address stands in brackets."""


def _jumps(text: str) -> tuple[str, ...]:
    jumps = tuple(text.split(",")) if text and text != "none" else ()
    for jump in jumps:
        _parts_of(jump)
    return jumps


def _parts_of(jump: str) -> tuple[str | None, str, int | None]:
    found = JUMP.fullmatch(jump.strip())
    if found is None:
        raise ValueError(f"{jump!r} is no jump host")
    return found["user"], found["address"].strip("[]"), _port(found["port"] or "")


def _port(text: str) -> int | None:
    if text and not (re.fullmatch(r"[0-9]{1,5}", text) and 0 < int(text) < 65536):
        raise ValueError(f"{text!r} is no port")
    return int(text) if text else None


def _expanded(command: str, address: str, port: str, user: str) -> str:
    """Fill in OpenSSH's tokens; Fabric would take port 22 for any host."""
    tokens = {"%h": address, "%p": port, "%r": user}
    return re.sub(r"%[hpr]", lambda token: tokens[token[0]], command)


def _known_hosts(host: Host, from_options: str) -> tuple[str, ...]:
    return (host.known_hosts_file,) if host.known_hosts_file else tuple(shlex.split(from_options))


def _pairs(arguments: str) -> Iterator[tuple[str, str]]:
    """Return OpenSSH options as lower-case keyword and value; what takes no value is passed over."""
    words = iter(shlex.split(arguments))
    for word in words:
        if word.startswith("-o"):
            key, value = re.split(r"\s*=\s*|\s+", (word[2:] or next(words, "")).strip() + " ", maxsplit=1)
            yield key.lower(), value.strip()
        elif word[:2] in SHORT:
            yield SHORT[word[:2]], word[2:] or next(words, "")
