"""What is written into the virtual machine's root: name, keys, network, kernel arguments."""

from __future__ import annotations

from pathlib import Path

from qwenhost.lab.guest import mask_units, put, write_ssh
from qwenhost.lab.layout import LabHost
from qwenhost.lab.vm.disk import write_boot_settings

# The addresses that QEMU's user-mode network gives.
NETWORK = """\
[Match]
Type=ether

[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
LinkLocalAddressing=no
"""

CONSOLE = "console=ttyS0"
OWNERS = "mitigations=off loglevel=4"
"""Arguments as an owner of such a host may have set them; the first also makes emulation faster."""

UNUSED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-networkd-wait-online.service",
    "systemd-timesyncd.service",
)
"""They act at times of their own choosing, or wait for a network that is not there."""


def write_guest(host: LabHost, root: Path) -> None:
    """Make a fresh image's root the given host's, with a kernel that prints to the serial console."""
    put(root / "etc/hostname", f"{host.name}\n")
    put(root / "etc/hosts", f"127.0.0.1 localhost {host.name}\n")
    put(root / "etc/default/locale", "LANG=C.UTF-8\n")
    put(root / "etc/systemd/network/lab.network", NETWORK)
    enabled = root / "etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
    enabled.symlink_to("/usr/lib/systemd/system/systemd-networkd.service")
    write_ssh(host, root)
    mask_units(root / "etc/systemd/system", UNUSED_UNITS)
    write_boot_settings(root, CONSOLE, OWNERS)
