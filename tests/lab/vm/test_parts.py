"""The virtual machine's parts that need neither root nor QEMU."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

from qwenhost.lab.image import CONTAINER, image_key, release_sources
from qwenhost.lab.layout import Lab
from qwenhost.lab.simulator.guest import power_on
from qwenhost.lab.vm import disk
from qwenhost.lab.vm.machine import VirtualMachine, console, qemu_command

LOADER = bytes(range(256)) * 2


def test_the_boot_record_keeps_the_loader_and_names_one_active_partition() -> None:
    record = disk.boot_record(LOADER)
    assert (len(record), record[: disk.LOADER_BYTES]) == (512, LOADER[: disk.LOADER_BYTES])
    active, kind, start, sectors = struct.unpack("<B3xB3xII", record[446:462])
    assert (active, kind, start) == (0x80, 0x83, disk.START_SECTOR)
    assert (start + sectors) * disk.SECTOR_BYTES == disk.SIZE_BYTES
    assert record[462:] == bytes(48) + b"\x55\xaa"


def test_the_first_menu_has_the_arguments_that_update_grub_would_write(tmp_path: Path) -> None:
    for folder in ("etc/default", "boot/grub"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("vmlinuz-6.1.0-1", "initrd.img-6.1.0-1"):
        (tmp_path / "boot" / name).touch()
    disk.write_boot_settings(tmp_path, "console=ttyS0", "quiet splash")
    menu = (tmp_path / "boot/grub/grub.cfg").read_text()
    assert f"linux /boot/vmlinuz-6.1.0-1 root=UUID={disk.ROOT_UUID} ro console=ttyS0 quiet splash\n" in menu
    settings = (tmp_path / "etc/default/grub").read_text()
    assert 'GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\nGRUB_CMDLINE_LINUX="console=ttyS0"\n' in settings


def test_qemu_has_two_nodes_and_a_network_that_only_leads_in() -> None:
    command = " ".join(qemu_command(VirtualMachine(Lab("vm").host(1), 40022)))
    assert "node,nodeid=1,memdev=memory1,cpus=1" in command
    assert "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:40022-:22" in command


def test_what_is_run_before_the_packages_tells_images_apart() -> None:
    sources = release_sources()
    other = dataclasses.replace(CONTAINER, before=("true",))
    assert image_key(sources, []) == image_key(sources, [], CONTAINER) != image_key(sources, [], other)


def test_real_devices_and_modules_stand_beside_the_simulated(tmp_path: Path) -> None:
    devices, modules = tmp_path / "devices", tmp_path / "real-modules"
    for folder in (devices, tmp_path / "pci"):
        folder.mkdir()
    (devices / "0000:00:00.0").symlink_to("../../../devices/real")
    (devices / "0000:00:01.0").symlink_to("../../../devices/disk")
    (tmp_path / "pci/0000:00:00.0").symlink_to("../simulated")
    modules.write_text("virtio_blk 28672 2 - Live 0x0\n")
    (tmp_path / "modules").write_text("nvidia 14393344 0 - Live 0x0\n")
    for _ in range(2):  # two boots
        power_on.add_real(tmp_path, devices, modules)
    links = {path.name: str(path.readlink()) for path in (tmp_path / "pci").iterdir()}
    assert links == {"0000:00:00.0": "../simulated", "0000:00:01.0": "../../../devices/disk"}
    text = (tmp_path / "modules").read_text()
    assert text == "nvidia 14393344 0 - Live 0x0\nvirtio_blk 28672 2 - Live 0x0\n"


def test_a_boot_that_fails_is_told_with_the_end_of_the_console(tmp_path: Path) -> None:
    class Host:
        folder, console = tmp_path, tmp_path / "console.log"

    Host.console.write_text("".join(f"line {number}\n" for number in range(100)))
    (tmp_path / "qemu.log").write_text("qemu: no memory\n")
    told = console(VirtualMachine(Host(), 1)).splitlines()  # type: ignore[arg-type]
    assert (told[0], told[-1], len(told)) == ("qemu: no memory", "line 99", 16)
