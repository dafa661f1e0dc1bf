"""Kernel arguments through GRUB: one file of ours, read after the others, and the menu made anew."""

from __future__ import annotations

import os
import re
from typing import Any

from qwenhost.hands import boot_stamp, command, kernel, own_files
from qwenhost.hands.answer import BadRequest, Refused, outcome

OWN = "etc/default/grub.d/90-qwenhost.cfg"
MENU = "boot/grub/grub.cfg"
UPDATE = "usr/sbin/update-grub"
SECONDS = 300
"""update-grub looks for other systems on all disks."""

ARGUMENT = re.compile(r"[\w.:,=@/+-]+")
"""GRUB's scripts and the shell take these as they are."""

ENTRY = re.compile(r"^\s*linux(?:efi|16)?\s+\S*/(?:vmlinu[xz]|bzImage|kernel)\S*\s+(.*\S)", re.MULTILINE)
RESCUE = {"single", "recovery", "emergency", "rescue"}

# Appended last and for normal entries only: other arguments keep their order, a rescue entry stays as it is.
LINE = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {}"\n'


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Have the kernel get {"args": [words that belong side by side]} at the next boot. Raises Refused.

    What others give it already is not given again; our file goes where nothing is left. Asks for a reboot where
    the running kernel has not got them.
    """
    groups = [str(words).split() for words in request["args"]]
    for word in [word for words in groups for word in words or [""]]:
        if not ARGUMENT.fullmatch(word):
            raise BadRequest("not a kernel argument that GRUB takes as it is: {!r}".format(word))
    before = own_files.read(OWN)
    if not groups and before is None:
        return outcome([], [])
    _need_grub()
    others = _without(_menu(), _args(before))
    args = [word for words in groups if not contains(others, words) for word in words]
    was, due = _told(_args(before), contains(_menu(), _args(before))), _told(args, in_menu=True)
    if was != due and not check:
        _apply(before, LINE.format(" ".join(args)) if args else "", args)
        if not all(contains(_menu(), words) for words in groups):
            return run(request)  # the menu had been older than its files
    return outcome(was, due, _reason(args) if was != due else "")


def rewrite() -> None:
    """Make the menu anew of the files as they are now. Raises Refused."""
    if os.path.exists(kernel.path_of(UPDATE)):
        _update()


def _need_grub() -> None:
    for path in (MENU, UPDATE):
        if not os.path.exists(kernel.path_of(path)):
            raise Refused("GRUB does not write the boot entries of this host: no /{}".format(path))


def _apply(before: str | None, body: str, args: list[str]) -> None:
    """Write our file and the menu; a menu that cannot be made leaves the old file."""
    boot_stamp.write(OWN, body)
    try:
        _update()
    except Refused:
        own_files.put(OWN, before)
        raise
    if not contains(_menu(), args):
        told = "update-grub left out {}: a file in /etc/default/grub.d that is read after /{} drops it"
        raise Refused(told.format(" ".join(args), OWN))


def contains(found: list[str], wanted: list[str]) -> bool:
    """Tell whether the wanted words stand in the found ones, side by side."""
    return any(found[at : at + len(wanted)] == wanted for at in range(len(found) - len(wanted) + 1))


def _without(menu: list[str], own: list[str]) -> list[str]:
    """Return the menu's words without ours, which stand last where they stand."""
    places = [at for at in range(len(menu) - len(own) + 1) if menu[at : at + len(own)] == own]
    return menu[: places[-1]] + menu[places[-1] + len(own) :] if own and places else menu


def _args(own: str | None) -> list[str]:
    """Return the words of our file."""
    found = re.search(r'DEFAULT="\$GRUB_CMDLINE_LINUX_DEFAULT (.*)"', boot_stamp.body_of(own))
    return found.group(1).split() if found else []


def _told(args: list[str], in_menu: bool) -> list[str]:
    return ["kernel arguments: {}{}".format(" ".join(args) or "none", "" if in_menu else ", not in GRUB's menu")]


def _menu() -> list[str]:
    """Return the arguments of the first normal entry."""
    entries = [found.split() for found in ENTRY.findall(own_files.read(MENU) or "")]
    return next((args for args in entries if not RESCUE & set(args)), [])


def _update() -> None:
    command.call(kernel.path_of(UPDATE), seconds=SECONDS)


def _reason(args: list[str]) -> str:
    """Return why a reboot is needed, empty where the running kernel has the arguments."""
    running = kernel.read(kernel.path_of("proc/cmdline")).split()
    return "" if set(args) <= set(running) else "kernel arguments: {}".format(" ".join(args))
