"""A host to examine: how to get there, and the inventory's variables for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LOCAL = "local"
"""A connection that is none: the host is this one."""


@dataclass(frozen=True)
class Host:
    """Connection settings as Ansible has them; empty or None means: not given."""

    name: str
    address: str = ""
    port: int | None = None
    user: str = ""
    key_file: str = ""
    known_hosts_file: str = ""
    ssh_args: str = ""
    become: bool = False
    python: str = ""
    connection: str = ""
    """LOCAL, or empty for SSH."""
    password: str = field(default="", repr=False)
    become_password: str = field(default="", repr=False)
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The qwenhost_* variables, unchecked."""
    origin: str = ""
    """Inventory file, for messages."""
