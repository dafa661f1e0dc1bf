"""What GRUB will give the kernel at the next boot, and which file says so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qwenhost.facts.keyed import listing
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import tree

ANCHOR = "/proc/version"
MENU = "/boot/grub/grub.cfg"
UPDATE = "/usr/sbin/update-grub"
OWN = "/etc/default/grub.d/90-qwenhost.cfg"

FILES = tree("boot-loader", ANCHOR, MENU, UPDATE, "/etc/default/grub", "/etc/default/grub.d/*.cfg")

_ENTRY = re.compile(r"^\s*linux(?:efi|16)?\s+\S*/(?:vmlinu[xz]|bzImage|kernel)\S*\s+(?P<args>.*\S)", re.MULTILINE)
_RESCUE = {"single", "recovery", "emergency", "rescue"}
_OWN_LINE = re.compile(
    r'^GRUB_CMDLINE_LINUX_DEFAULT="\$GRUB_CMDLINE_LINUX_DEFAULT (?P<args>.*)"\s*$', re.MULTILINE
)
STAMP = re.compile(r"^# Written in boot (?P<boot>[0-9a-f-]{36})\s*$", re.MULTILINE)
_ANEW = re.compile(r"^\s*(?:export\s+)?GRUB_CMDLINE_LINUX_DEFAULT=(?!.*\$\{?GRUB_CMDLINE_LINUX_DEFAULT\b)")


@dataclass(frozen=True)
class BootLoader:
    """`missing`: what of Debian's GRUB is not there, so that it does not write this host's boot entries.

    `next_boot`: arguments of the first entry of the menu, None where the menu cannot be read. `own`: those of our
    file, which was written in the boot with the id `written_in`. `overriding`: file and line that is read after
    our file and drops what stood there.
    """

    missing: str = ""
    next_boot: tuple[str, ...] | None = None
    own: tuple[str, ...] = ()
    written_in: str = ""
    overriding: str = ""


@parses(FILES)
def boot_loader(capture: Capture) -> BootLoader:
    """Parse the menu and the files that update-grub makes it of."""
    files = listing(capture, ANCHOR)
    missing = next((path for path in (MENU, UPDATE) if path not in files and f"{path}!" not in files), "")
    own = files.get(OWN, "")
    line, stamp = _OWN_LINE.search(own), STAMP.search(own)
    return BootLoader(
        missing=missing,
        next_boot=_first_entry(files[MENU]) if MENU in files else None,
        own=tuple(line["args"].split()) if line else (),
        written_in=stamp["boot"] if stamp else "",
        overriding=next(_overriding(files), ""),
    )


def _first_entry(menu: str) -> tuple[str, ...]:
    entries = [tuple(found["args"].split()) for found in _ENTRY.finditer(menu)]
    normal = [args for args in entries if not _RESCUE & set(args)]
    if not normal:
        raise Unparsable("no boot entry in it")
    return normal[0]


def _overriding(files: Mapping[str, str]) -> Iterator[str]:
    """Yield lines of files that are read after ours and assign without what stood there."""
    for path in sorted(path for path in files if path.startswith("/etc/default/grub.d/") and path > OWN):
        for number, line in enumerate(files[path].splitlines(), 1):
            if _ANEW.match(line):
                yield f"{path}:{number}"
