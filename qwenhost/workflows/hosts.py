"""Which hosts are meant: names on the command line, an inventory, or both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qwenhost.records.errors import QwenhostError
from qwenhost.records.host import Host

PROFILE = "qwenhost_profile"

NAME = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?P<address>\[[0-9a-fA-F:.]+\]|[^@:\s\[\]/-][^@:\s\[\]/]*)(?::(?P<port>\d+))?"
)
"""[user@]name[:port]; an IPv6 address stands in brackets."""


def choose(names: Sequence[str], inventory: Path | None, limit: str = "", profile: str = "") -> tuple[Host, ...]:
    """Return the hosts; none when neither names nor an inventory are given, which means this host.

    Raises QwenhostError for a name that is no host, or that the inventory does not have.
    """
    if inventory is None:
        found = tuple(parse_host(name) for name in names)
    else:
        found = _from_inventory(names, inventory, limit)
    return tuple(_with_profile(host, profile) for host in found)


def one_or_none(hosts: Sequence[Host]) -> Host | None:
    """Return the host that a bundle is held against, if one was named."""
    if len(hosts) > 1:
        raise QwenhostError("a bundle is one host's", hint="name the host of the inventory that it came from")
    return hosts[0] if hosts else None


def parse_host(text: str) -> Host:
    """Read [user@]name[:port]."""
    found = NAME.fullmatch(text)
    if not found:
        raise QwenhostError(f"{text!r} is not a host", hint="write [user@]name[:port]")
    port = int(found["port"]) if found["port"] else None
    return Host(text, address=found["address"].strip("[]"), port=port, user=found["user"] or "")


def _from_inventory(names: Sequence[str], inventory: Path, limit: str) -> tuple[Host, ...]:
    from qwenhost.workflows.inventory import load_hosts  # Ansible's inventory costs 0.5 s

    hosts = {host.name: host for host in load_hosts(inventory, limit)}
    strangers = [name for name in names if name not in hosts]
    if strangers:
        raise QwenhostError(
            f"{', '.join(strangers)}: not in {inventory}", hint=f"it has {', '.join(hosts) or 'no hosts'}"
        )
    return tuple(hosts[name] for name in names) if names else tuple(hosts.values())


def _with_profile(host: Host, profile: str) -> Host:
    return replace(host, variables={**host.variables, PROFILE: profile}) if profile else host
