"""Names, addresses and folders of a lab: everything else derives them from here."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from qwenhost.records.errors import QwenhostError

STATE = Path("/var/lib/qwenhost-lab")
CACHE = Path("/var/cache/qwenhost-lab")
WHEELHOUSE = CACHE / "wheelhouse"
MODELS = CACHE / "models"

PREFIX_LENGTH = 24
MOST_HOSTS = 200
PROXY_PORT = 3128

# What a booting guest takes of fs.inotify.max_user_instances, the machine's own limit. Measured: of
# 21 hosts under a limit of 128, one booted with a failed unit; of 16, none.
INOTIFY_INSTANCES_PER_HOST = 8
NAME = re.compile(r"[a-z][a-z0-9]{0,9}")


@dataclass(frozen=True)
class Lab:
    """One named lab. The name is at most 10 characters, because it prefixes a network interface."""

    name: str = "qwenhost"

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise QwenhostError(
                f"lab name {self.name!r} is not usable",
                hint="a letter, then up to 9 letters or digits, all lower-case",
            )

    @property
    def folder(self) -> Path:
        """Keys, known_hosts and, while the lab is up, its hosts."""
        return STATE / self.name

    @property
    def key(self) -> Path:
        """The private key that opens every host of the lab."""
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The hosts' public keys, for `StrictHostKeyChecking=yes`."""
        return self.folder / "known_hosts"

    @property
    def settings_file(self) -> Path:
        """What the running hosts simulate (JSON); there while the lab is up."""
        return self.folder / "lab.json"

    @property
    def proxy_log(self) -> Path:
        """What the package proxy allowed and refused."""
        return self.folder / "proxy.log"

    @property
    def network(self) -> str:
        """Its own range of addresses, told by its name, so that several labs can be up at once."""
        return f"10.213.{zlib.crc32(self.name.encode()) % 256}.0/{PREFIX_LENGTH}"

    def address(self, number: int) -> str:
        """The `number`th address of its range."""
        return str(ip_network(self.network)[number])

    @property
    def machine_address(self) -> str:
        """The machine's end of the lab."""
        return self.address(254)

    @property
    def gateway_address(self) -> str:
        """The hosts' gateway, which leads nowhere."""
        return self.address(253)

    @property
    def netns(self) -> str:
        """The network namespace that holds the bridge."""
        return f"{self.name}-bridge"

    @property
    def interface(self) -> str:
        """The lab's one interface in the machine's own network namespace."""
        return f"{self.name}-lab"

    def host(self, number: int) -> LabHost:
        """The `number`th host, counted from 1."""
        return LabHost(self, number)

    def named(self, name: str) -> LabHost:
        """The host called `name`, such as "lab1"; whether it runs is not looked at."""
        found = re.fullmatch(r"lab([1-9][0-9]{0,2})", name)
        if not found or int(found[1]) > MOST_HOSTS:
            raise QwenhostError(f"no lab host is called {name!r}", hint="`qwenhost lab status` names them")
        return self.host(int(found[1]))

    def hosts(self) -> list[LabHost]:
        """The hosts that have a folder: those that run, and the remains of those that died."""
        names = (path.name for path in (self.folder / "hosts").glob("lab*"))
        return sorted((self.named(name) for name in names), key=lambda host: host.number)


@dataclass(frozen=True)
class LabHost:
    """One simulated host."""

    lab: Lab
    number: int

    @property
    def name(self) -> str:
        """Its host name."""
        return f"lab{self.number}"

    @property
    def machine(self) -> str:
        """Its container name, unique among labs; also the name of its network namespace."""
        return f"{self.lab.name}-{self.name}"

    @property
    def address(self) -> str:
        """Its IPv4 address."""
        return self.lab.address(self.number)

    @property
    def mac(self) -> str:
        """Fixed, so that a host that is made again meets no stale ARP entry."""
        return f"52:54:00:d5:04:{self.number:02x}"

    @property
    def folder(self) -> Path:
        """Its overlay and console log."""
        return self.lab.folder / "hosts" / self.name

    @property
    def root(self) -> Path:
        """The merged root file system, mounted while the host exists."""
        return self.folder / "root"

    @property
    def console(self) -> Path:
        """What the guest printed on its console, over all its boots."""
        return self.folder / "console.log"

    @property
    def host_key(self) -> Path:
        """Its SSH host key, kept when the lab goes down."""
        return self.lab.folder / "host-keys" / self.name
