"""What packages do to the driver: libraries and fabric manager are new at once, the module with the next boot."""

from __future__ import annotations

import re
from pathlib import Path

from . import state

KEYS = {
    "library": "driver.library_version",
    "fabricmanager": "fabricmanager.version",
    "module": "driver.next_module_version",
}


def main(arguments: list[str]) -> int:
    """Run as `installed PART VERSION`, from the maintainer scripts of stand-in packages."""
    part, version = arguments
    with state.change() as values:
        values[KEYS[part]] = version
    return 0


def load_module(values: state.Values, home: Path) -> None:
    """Load the module that was installed last, as a boot does."""
    version = values.pop("driver.next_module_version", "")
    if not version:
        return
    values["driver.module_version"] = version
    path = home / "proc-driver" / "nvidia" / "version"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"\d{3}(\.\d+){2}", version, text, count=1), encoding="utf-8")
