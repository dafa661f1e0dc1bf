"""Stand-ins for kernel settings that a container shares with its machine, so that they can be tuned.

`vm`, hugepages and devices are the simulator's. Here are `net.core`, of which a network namespace
owns a part, and single keys of `kernel` and `fs`. A stand-in is a plain file with the machine's
value: it takes any value, and no kernel acts on it. Keys that the host does own, such as
net.core.somaxconn and all of net.ipv4, stay real.
"""

from __future__ import annotations

from pathlib import Path

MACHINE_SETTINGS = Path("/proc/sys")
SCRIPTS = "usr/local/lib/qwenhost-lab"
SEEDS = f"{SCRIPTS}/sysctl"

# Keys that tuning profiles set; one that this machine's kernel lacks is lacking in the lab, too.
SHARED_KEYS = (
    "fs/aio-max-nr",
    "fs/file-max",
    "fs/inotify/max_user_instances",
    "fs/inotify/max_user_watches",
    "fs/nr_open",
    "kernel/hung_task_timeout_secs",
    "kernel/numa_balancing",
    "kernel/panic",
    "kernel/pid_max",
    "kernel/sched_autogroup_enabled",
    "kernel/shmall",
    "kernel/shmmax",
    "kernel/shmmni",
    "kernel/threads-max",
)

# A key is the host's own when it is writable: those of the machine are read-only here, or not there.
# No mount is left outside /proc: systemd would unmount it on shutdown, and then not finish.
SCRIPT = f"""\
#!/bin/sh
# Binds plain files over the kernel settings that this simulated host shares with its machine.
set -eu
own=/run/lab-sysctl
core=/proc/sys/net/core
mkdir -p $own/real
cp -R /{SEEDS}/. $own

mount --bind $core $own/real
mount --make-private $own/real
mount --bind $own/net/core $core
mount --make-private $core
for real in $own/real/*; do
    if [ -f "$real" ] && [ -w "$real" ]; then mount --bind "$real" "$core/${{real##*/}}"; fi
done
umount $own/real

cd $own
find fs kernel -type f | while read -r key; do
    mount --bind "$key" "/proc/sys/$key"
    mount -o remount,bind,rw "/proc/sys/$key"
done
"""

# systemd-sysctl overwrites a key without truncating it: a kernel does not mind, but a plain file keeps
# the tail of a longer value.
TIDY = """\
#!/bin/sh
# Cuts each stand-in under /proc/sys, the simulator's too, to the one line that was written last.
find /proc/sys/fs /proc/sys/kernel /proc/sys/net/core /proc/sys/vm -type f ! -fstype proc ! -name boot_id |
while read -r key; do
    read -r line < "$key" || true
    printf '%s\\n' "$line" > "$key"
done
"""

TIDY_AFTER_SYSCTL = f"""\
[Service]
ExecStartPost=/bin/sh /{SCRIPTS}/tidy-sysctl
"""

UNIT = f"""\
[Unit]
Description=Stand-ins for kernel settings that this simulated host shares with its machine
DefaultDependencies=no
Before=systemd-sysctl.service sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh /{SCRIPTS}/bind-sysctl

[Install]
WantedBy=sysinit.target
"""


def write_standins(root: Path, machine: Path = MACHINE_SETTINGS) -> None:
    """Put the script, its unit and the machine's present values into a host's root."""
    for key in shared_keys(machine):
        seed = root / SEEDS / key
        seed.parent.mkdir(parents=True, exist_ok=True)
        seed.write_text((machine / key).read_text())
    (root / SCRIPTS / "bind-sysctl").write_text(SCRIPT)
    (root / SCRIPTS / "tidy-sysctl").write_text(TIDY)
    units = root / "etc/systemd/system"
    (units / "systemd-sysctl.service.d").mkdir(exist_ok=True)
    (units / "systemd-sysctl.service.d/lab.conf").write_text(TIDY_AFTER_SYSCTL)
    (units / "lab-sysctl.service").write_text(UNIT)
    wants = units / "sysinit.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "lab-sysctl.service").symlink_to("../lab-sysctl.service")


def shared_keys(machine: Path) -> list[str]:
    """Those that this machine's kernel has and root may read, as paths below /proc/sys."""
    core = [str(path.relative_to(machine)) for path in sorted((machine / "net/core").iterdir()) if path.is_file()]
    return [key for key in (*core, *SHARED_KEYS) if _readable(machine / key)]


def _readable(path: Path) -> bool:
    try:
        path.read_text()
    except OSError:
        return False
    return True
