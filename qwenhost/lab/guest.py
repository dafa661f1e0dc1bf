"""What is written into a host's root before it boots: name, keys, package sources, units for a container."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from qwenhost.lab.aptsources import AptSource
from qwenhost.lab.keys import public
from qwenhost.lab.layout import PROXY_PORT, Lab, LabHost
from qwenhost.lab.standins import write_standins

USERS = {"root": "root", "operator": "home/operator", "nosudo": "home/nosudo"}

# They need a kernel or devices of their own, or act at times of their own choosing.
MASKED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "proc-sys-fs-binfmt_misc.automount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-remount-fs.service",
    "systemd-timesyncd.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udevd.service",
)

SSHD = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
PermitRootLogin prohibit-password
UseDNS no
MaxSessions 100
MaxStartups 100:30:200
"""

# One request per connection: the proxy connects each to the host that it names.
APT = """\
Acquire::http::Proxy "{proxy}";
Acquire::https::Proxy "{proxy}";
Acquire::http::Pipeline-Depth "0";
Acquire::Languages "none";
"""


def write_guest(host: LabHost, sources: list[AptSource], root: Path) -> None:
    """Make a fresh image's root the given host's."""
    put(root / "etc/hostname", f"{host.name}\n")
    put(root / "etc/hosts", f"127.0.0.1 localhost\n{host.address} {host.name}\n")
    put(root / "etc/resolv.conf", "# No name service in the lab: packages come through its proxy.\n")
    put(root / "etc/default/locale", "LANG=C.UTF-8\n")
    put(root / "etc/pip.conf", f"[global]\nproxy = {proxy_url(host.lab)}\n")
    write_ssh(host, root)
    _write_apt(sources, root, proxy_url(host.lab))
    mask_units(root / "etc/systemd/system", MASKED_UNITS)
    write_standins(root)


def proxy_url(lab: Lab) -> str:
    """Where the hosts' way to the package registries is."""
    return f"http://{lab.machine_address}:{PROXY_PORT}"


def write_ssh(host: LabHost, root: Path) -> None:
    """Give the host its key, and let the lab's key in as each of USERS."""
    put(root / "etc/ssh/sshd_config.d/lab.conf", SSHD)
    put(root / "etc/ssh/ssh_host_ed25519_key", host.host_key.read_text(), mode=0o600)
    put(root / "etc/ssh/ssh_host_ed25519_key.pub", public(host.host_key))
    for home in USERS.values():
        owner = (root / home).stat()
        folder = root / home / ".ssh"
        folder.mkdir(mode=0o700, exist_ok=True)
        put(folder / "authorized_keys", public(host.lab.key), mode=0o600)
        for path in (folder, folder / "authorized_keys"):
            shutil.chown(path, owner.st_uid, owner.st_gid)


def _write_apt(sources: list[AptSource], root: Path, proxy: str) -> None:
    for path in (root / "etc/apt/sources.list.d").iterdir():
        path.unlink()
    put(root / "etc/apt/sources.list", "".join(f"{source.line()}\n" for source in sources))
    put(root / "etc/apt/apt.conf.d/90lab-proxy", APT.format(proxy=proxy))
    for key in {source.signed_by for source in sources if source.signed_by}:
        inside = root / key.lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(key, inside)


def mask_units(units: Path, names: Iterable[str]) -> None:
    """Keep units from starting; `units` is /etc/systemd/system of a root."""
    for unit in names:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file, in place of one or a link that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)
