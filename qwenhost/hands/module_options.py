"""Options of the nvidia kernel module: one file of ours for modprobe, in force when the module is loaded anew."""

from __future__ import annotations

import re
from typing import Any

from qwenhost.hands import boot_stamp, kernel, own_files
from qwenhost.hands.answer import BadRequest, outcome

OWN = "etc/modprobe.d/qwenhost-nvidia.conf"
PARAMETERS = "proc/driver/nvidia/params"
NAME, VALUE = re.compile(r"NVreg_\w+"), re.compile(r"[\w.:;=,/+-]+")


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Have the module get {"options": {name: value}} when it is loaded; none: our file goes.

    Asks for a reboot where the loaded module has other values.
    """
    options = {str(name): str(value) for name, value in sorted(request["options"].items())}
    for name, value in options.items():
        if not NAME.fullmatch(name) or not VALUE.fullmatch(value):
            raise BadRequest("not an option of the nvidia module: {}={!r}".format(name, value))
    body = "options nvidia {}\n".format(_words(options)) if options else ""
    before = boot_stamp.body_of(own_files.read(OWN))
    if before != body and not check:
        boot_stamp.write(OWN, body)
    return outcome(_lines(before), _lines(body), _reason(options) if before != body else "")


def _words(options: dict[str, str]) -> str:
    return " ".join("{}={}".format(*option) for option in options.items())


def _lines(body: str) -> list[str]:
    """Return nothing for no file, so that an unmanaged host has nothing to tell."""
    return ["nvidia module: {}".format(line.partition("nvidia ")[2]) for line in body.splitlines()]


def _reason(options: dict[str, str]) -> str:
    """Return why a reboot is needed, empty where the loaded module has these values."""
    try:
        rows = kernel.read(kernel.path_of(PARAMETERS)).splitlines()
    except OSError:
        return ""
    loaded = {name: value.strip(' "') for name, _, value in (row.partition(":") for row in rows)}
    waiting = {name: value for name, value in options.items() if loaded.get(name[len("NVreg_") :]) != value}
    return "options of the nvidia module: {}".format(_words(waiting)) if waiting else ""
