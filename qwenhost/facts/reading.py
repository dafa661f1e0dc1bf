"""Values as the driver's tools print them: bus ids, numbers with units, and the many ways to say "no
value".
"""

from __future__ import annotations

import re

_BUS_ID = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?(?![0-9a-fA-F:])")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LOST = re.compile(r"gpu is lost|unknown error|gpu_is_lost|\berr!", re.IGNORECASE)

NO_VALUE = frozenset({"", "n/a", "[n/a]", "none", "not supported", "[not supported]", "unknown"})
"""How the tools say that there is no such value, lower case."""


def bus_id(text: str) -> str:
    """Return the first PCI address in `text` as 0000:07:00.0, lower case; empty when there is none.

    Domains of eight digits (the driver), of four (the kernel) and left out (lspci), and addresses without
    a function (Xid lines) all come out in one form.
    """
    found = _BUS_ID.search(text)
    if not found:
        return ""
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function or '0'}".lower()


def value(text: str | None) -> str | None:
    """Return a printed value without trailing remarks of whoever pasted it; None when it says there is
    none.
    """
    if text is None:
        return None
    bare = re.sub(r"\s*<[-=]+.*$", "", text).strip()
    if bare.lower() in NO_VALUE or "deprecated" in bare.lower() or lost(bare):
        return None
    return bare


def lost(text: str | None) -> bool:
    """Tell whether a printed value says that the GPU no longer answers."""
    return bool(text and _LOST.search(text))


def number(text: str | None) -> int | None:
    """Return the first number of a printed value, rounded; None when there is none."""
    bare = value(text)
    found = _NUMBER.search(bare) if bare else None
    return round(float(found.group())) if found else None


def flag(text: str | None) -> bool | None:
    """Return Enabled/Yes/Active/On as true and their opposites as false; None for anything else."""
    bare = (value(text) or "").lower()
    if bare in {"enabled", "yes", "active", "on", "1", "true"}:
        return True
    return False if bare in {"disabled", "no", "not active", "off", "0", "false"} else None


def plain(text: str) -> str:
    """Return `text` without terminal escapes and carriage returns."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "")
