"""A stand-in for Debian's GRUB: update-grub makes a menu of the files that the real one reads, in their order."""

from __future__ import annotations

import subprocess
from pathlib import Path

UPDATE_GRUB = """\
#!/bin/sh
# Reads the defaults and their drop-ins as grub-mkconfig does; writes one normal and one rescue entry.
set -eu
root=${0%/usr/sbin/update-grub}
GRUB_CMDLINE_LINUX= GRUB_CMDLINE_LINUX_DEFAULT=
. "$root/etc/default/grub"
for file in "$root"/etc/default/grub.d/*.cfg; do
    if [ -e "$file" ]; then . "$file"; fi
done
image=/boot/vmlinuz-6.1.0-32-amd64
entry() {
    words=$(echo $1)
    printf "menuentry '%s' {\\n\\tlinux\\t%s root=/dev/sda1 ro %s\\n}\\n" "$2" "$image" "$words"
}
{
    entry "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT" Linux
    entry "$GRUB_CMDLINE_LINUX single" 'Linux (recovery mode)'
} > "$root/boot/grub/grub.cfg.new"
mv "$root/boot/grub/grub.cfg.new" "$root/boot/grub/grub.cfg"
echo 'Generating grub configuration file ...' >&2
"""

DEFAULTS = """\
GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"
GRUB_CMDLINE_LINUX=""
"""


def write_grub(root: Path) -> None:
    """Install it below a host's root, with a menu."""
    program = root / "usr/sbin/update-grub"
    for path, text in ((program, UPDATE_GRUB), (root / "etc/default/grub", DEFAULTS)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    for folder in ("boot/grub", "etc/default/grub.d"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    subprocess.run(["/bin/sh", str(program)], check=True, capture_output=True)
