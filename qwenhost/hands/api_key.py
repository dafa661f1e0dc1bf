"""The API key of the service: given, or made here once. Root alone reads it, and no answer has it in it."""

from __future__ import annotations

import os
import secrets
import stat
from typing import Any

from qwenhost.hands import kernel, own_files
from qwenhost.hands.answer import outcome

PATH = "etc/qwenhost/vllm/api_key"
MODE = 0o600
MADE_BYTES = 32


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Write {"key"}; with an empty one, keep the key that is there, or make one."""
    given, held = str(request.get("key", "")).rstrip(), (own_files.read(PATH) or "").rstrip()
    key = given or held or secrets.token_urlsafe(MADE_BYTES)
    wanted = ["/{}: mode {:04o}, {}".format(PATH, MODE, "the key that is there" if key == held else "another key")]
    if key == held and _is_private():
        return outcome(wanted, wanted)
    before = _told(held)
    if not check:
        own_files.put(PATH, key + "\n", MODE)
    return outcome(before, wanted)


def _is_private() -> bool:
    told = os.lstat(kernel.path_of(PATH))
    return stat.S_ISREG(told.st_mode) and stat.S_IMODE(told.st_mode) == MODE and told.st_uid == os.geteuid()


def _told(held: str) -> list[str]:
    if not held:
        return []
    mode = stat.S_IMODE(os.lstat(kernel.path_of(PATH)).st_mode)
    return ["/{}: mode {:04o}, the key that is there".format(PATH, mode)]
