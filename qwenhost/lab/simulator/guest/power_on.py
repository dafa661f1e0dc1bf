"""Power-on step of a simulated host: kernel defaults, GPUs after a cold start, stand-ins bound into place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from . import faultlog, installed, state

BINDS: tuple[tuple[str, str], ...] = (
    ("pci", "/sys/bus/pci/devices"),
    ("node", "/sys/devices/system/node"),
    ("hugepages", "/sys/kernel/mm/hugepages"),
    ("thp", "/sys/kernel/mm/transparent_hugepage"),
    ("vm", "/proc/sys/vm"),
    ("proc-driver", "/proc/driver"),
    ("cmdline", "/proc/cmdline"),
    ("modules", "/proc/modules"),
    ("cpu", "/sys/devices/system/cpu"),
)
VOLATILE = re.compile(r"gpu\d+\.(ecc_volatile_\w+|event_ns_\d+|gi\d+(\.ci\d+(\.uuid)?)?)")
CMDLINE = "BOOT_IMAGE=/boot/vmlinuz-6.1.0-32-amd64 root=/dev/sda1 ro quiet iommu=pt"


def cold_start(values: state.Values) -> None:
    """Change the state as a reboot does: the pending MIG mode holds, instances and volatile counters go."""
    for key in [key for key in values if VOLATILE.fullmatch(key)]:
        del values[key]
    for slot in range(int(values["gpu.count"])):
        pending = state.get(values, slot, "mig_pending", "0")
        values.update({f"gpu{slot}.mig_mode": pending, f"gpu{slot}.mig_pending": pending})
        values[f"gpu{slot}.persistence"] = "0"
    values["boot.epoch"] = f"{time.time():.6f}"


def restore_defaults(home: Path) -> None:
    """Put back what a kernel starts with. Only contents change, so that the binds stay right."""
    defaults = home / "defaults"
    for path in defaults.rglob("*"):
        if path.is_file():
            shutil.copyfile(str(path), str(home / path.relative_to(defaults)))


def load_with_options(home: Path, configuration: Path) -> None:
    """Give the driver's module the options that modprobe's files hold for it."""
    listed = home / "proc-driver/nvidia/params"
    rows = listed.read_text(encoding="utf-8")
    for path in sorted(configuration.glob("*.conf")):
        lines = [
            line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("options nvidia ")
        ]
        for name, value in re.findall(r"\bNVreg_(\w+)=(\S+)", " ".join(lines)):
            rows = re.sub(rf"(?m)^{name}: .*$", f"{name}: {value}", rows)
    listed.write_text(rows, encoding="utf-8")


def kernel_command_line(grub: Path) -> str:
    """Return the arguments of the first entry of grub.cfg, else a plain default."""
    text = grub.read_text(encoding="utf-8") if grub.exists() else ""
    found = re.search(r"^\s*linux\s+(\S+)\s+(.*)$", text, re.MULTILINE)
    return f"BOOT_IMAGE={found.group(1)} {found.group(2).strip()}" if found else CMDLINE


def write_log(values: state.Values, cmdline: str) -> None:
    """Begin the kernel log anew; what an active fault logs is logged again."""
    (state.folder() / "kmsg").write_text("", encoding="utf-8")
    faultlog.append(faultlog.boot_lines(values, cmdline), 0.0)
    for entry in faultlog.journal().values():
        faultlog.append(entry.get("log", []), 12.5)


def make_device_nodes(values: state.Values) -> None:
    """Create /dev/nvidia* as plain files: visible, of no use to CUDA."""
    names = [f"nvidia{slot}" for slot in state.slots(values)]
    names += ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
    names += [f"nvidia-nvswitch{index}" for index in range(int(values["nvswitch.count"]))]
    for name in names:
        path = state.root() / "dev" / name
        path.touch()
        path.chmod(0o666)


def bind_all(home: Path) -> list[str]:
    """Bind every stand-in over its real path; return those that could not be bound, with the reason.

    A guest with a kernel of its own has stand-ins for its devices and their driver only.
    """
    failed = []
    for name, target in BINDS:
        if not (home / name).exists():
            continue
        if not Path(target).exists():
            print(f"a100sim: {target} is absent on this kernel, left out", flush=True)
            continue
        done = subprocess.run(
            ["mount", "--bind", str(home / name), target], capture_output=True, text=True, check=False
        )
        if done.returncode:
            failed.append(f"{target}: {done.stderr.strip()}")
            continue
        # /proc/sys is read-only in a container; the bind has its own flag.
        subprocess.run(["mount", "-o", "remount,rw,bind", target], capture_output=True, check=False)
    return failed


def add_real(home: Path, devices: Path, modules: Path) -> None:
    """Show the machine's own PCI devices and modules beside the stand-ins.

    Modules that are loaded later are not listed. A stand-in hides a real device of the same address.
    """
    for link in devices.iterdir():
        if not (home / "pci" / link.name).is_symlink():
            (home / "pci" / link.name).symlink_to(os.readlink(link))  # noqa: PTH115 - Path.readlink is of Python 3.9
    listed = home / "modules"
    ours = [line for line in listed.read_text(encoding="ascii").splitlines() if line.startswith("nvidia")]
    listed.write_text("\n".join([*ours, modules.read_text(encoding="ascii")]), encoding="ascii")


def main() -> int:
    """Run the whole step; the exit code tells whether all binds hold."""
    home = state.folder()
    with state.change() as values:
        cold_start(values)
        installed.load_module(values, home)
        for entry in faultlog.journal().values():
            values.update(entry["set"])
    if (home / "defaults").exists():
        restore_defaults(home)
        load_with_options(home, state.root() / "etc/modprobe.d")
        cmdline = kernel_command_line(state.root() / "boot/grub/grub.cfg")
        (home / "cmdline").write_text(cmdline + "\n", encoding="utf-8")
    else:  # a guest with a kernel of its own
        cmdline = Path("/proc/cmdline").read_text(encoding="utf-8").strip()
        add_real(home, Path("/sys/bus/pci/devices"), Path("/proc/modules"))
    write_log(values, cmdline)
    make_device_nodes(values)
    failed = bind_all(home)
    for line in failed:
        print(f"a100sim: {line}", flush=True)
    return 1 if failed else 0
