"""What the virtual machine's image has besides a container's: a kernel, an initramfs, a boot loader, udev."""

from __future__ import annotations

import platform

from qwenhost.lab.image import CONTAINER, Recipe

KERNELS = {"debian": "linux-image-cloud-amd64", "ubuntu": "linux-image-virtual"}
"""Distribution -> its kernel without drivers for hardware that no virtual machine has."""

# Found by name: the build sees this machine's devices, not the guest's. lz4 is unpacked fastest.
INITRAMFS = "MODULES=list\\nCOMPRESS=lz4\\n"
MODULES = "virtio_pci\\nvirtio_blk\\next4\\n"


def recipe() -> Recipe:
    """The recipe for this machine's distribution."""
    kernel = KERNELS[platform.freedesktop_os_release()["ID"]]
    before = (
        f'mkdir -p "$1/etc/initramfs-tools/conf.d" && printf "{INITRAMFS}" > "$1/etc/initramfs-tools/conf.d/lab"',
        'mkdir -p "$1/usr/share/initramfs-tools/modules.d" && '
        f'printf "{MODULES}" > "$1/usr/share/initramfs-tools/modules.d/lab"',
    )
    extra = ("e2fsprogs", "grub-pc", "initramfs-tools", "lz4", "udev", kernel)
    return Recipe(CONTAINER.packages + extra, CONTAINER.hooks, before)
