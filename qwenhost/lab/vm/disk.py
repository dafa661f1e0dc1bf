"""A disk that boots by itself, written from a root folder as plain files: no loop device, no mount."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from qwenhost.lab.commands import run

MIB = 1024 * 1024
SECTOR_BYTES = 512
SIZE_BYTES = 3072 * MIB
"""Sparse: about 400 MiB of it are written."""
START_SECTOR = 2048
"""Where the one partition begins. GRUB's core image lies in the gap before it."""
LOADER_BYTES = 440
"""Code in a master boot record; the disk's signature and the partitions follow."""
LINUX = 0x83
ACTIVE = 0x80
LARGE = b"\xfe\xff\xff"
"""Cylinder, head and sector of what is too far away to be told by them."""

ROOT_UUID = "6f8c2a4e-0b1d-4c55-9a57-71656e686f73"
GRUB_FOLDER = "boot/grub/i386-pc"
GRUB_MODULES = (
    "biosdisk part_msdos ext2 normal configfile linux gzio search search_fs_uuid test echo serial terminal"
)

SETTINGS = """\
# What this host's owner set; qwenhost leaves it as it is.
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR="Lab"
GRUB_CMDLINE_LINUX_DEFAULT="{default}"
GRUB_CMDLINE_LINUX="{always}"
GRUB_TERMINAL=serial
GRUB_DISABLE_OS_PROBER=true
GRUB_DISABLE_RECOVERY=true
"""

# In force until the guest's own update-grub writes another.
FIRST_MENU = """\
set timeout=0
menuentry "first boot" {{
    linux {kernel} root=UUID={uuid} ro {always} {default}
    initrd {initrd}
}}
"""


def write_boot_settings(root: Path, always: str, default: str) -> None:
    """Write GRUB's settings and the menu of the first boot, both with the same kernel arguments."""
    (root / "etc/fstab").write_text(f"UUID={ROOT_UUID} / ext4 defaults,noatime 0 1\n")
    (root / "etc/default/grub").write_text(SETTINGS.format(default=default, always=always))
    kernel, initrd = (f"/{kernel_file(root, name).relative_to(root)}" for name in ("vmlinuz", "initrd.img"))
    menu = FIRST_MENU.format(kernel=kernel, initrd=initrd, uuid=ROOT_UUID, always=always, default=default)
    (root / "boot/grub/grub.cfg").write_text(menu)


def kernel_file(root: Path, name: str) -> Path:
    """The newest file of this name that a kernel package put into /boot."""
    return max((root / "boot").glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)


def write_disk(root: Path, disk: Path) -> None:
    """Write the root folder and GRUB to a fresh disk image of SIZE_BYTES."""
    _write_core(root)
    with disk.open("wb") as image:
        image.truncate(SIZE_BYTES)
    start = START_SECTOR * SECTOR_BYTES
    options = f"offset={start},lazy_itable_init=1,nodiscard"
    size_kib = (SIZE_BYTES - start) // 1024
    run(
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-U",
        ROOT_UUID,
        "-E",
        options,
        "-d",
        str(root),
        str(disk),
        f"{size_kib}k",
    )
    with disk.open("r+b") as image:
        image.write(boot_record((root / GRUB_FOLDER / "boot.img").read_bytes()))
        image.seek(SECTOR_BYTES)
        image.write((root / GRUB_FOLDER / "core.img").read_bytes())


def boot_record(loader: bytes) -> bytes:
    """The disk's first sector: GRUB's loader and the table of partitions (one, which is active)."""
    sectors = SIZE_BYTES // SECTOR_BYTES - START_SECTOR
    partition = struct.pack("<B3sB3sII", ACTIVE, LARGE, LINUX, LARGE, START_SECTOR, sectors)
    return loader[:LOADER_BYTES].ljust(446, b"\0") + partition.ljust(64, b"\0") + b"\x55\xaa"


def _write_core(root: Path) -> None:
    """Put GRUB's modules where its menu looks for them, and make the image that the loader starts."""
    shutil.copytree(root / "usr/lib/grub/i386-pc", root / GRUB_FOLDER, dirs_exist_ok=True)
    made = f"grub-mkimage -O i386-pc -p (hd0,msdos1)/boot/grub -o /{GRUB_FOLDER}/core.img {GRUB_MODULES}"
    run("chroot", str(root), *made.split())
