"""How the kernel sets the frequency of each processor."""

from __future__ import annotations

import glob
import os
from collections import Counter
from typing import Any

from qwenhost.hands import kernel
from qwenhost.hands.answer import Refused, outcome, why

FILES = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Bring {"governor": name} into force on every processor. Raises Refused.

    Nothing is done where the kernel sets no frequency, as in a virtual machine.
    """
    wanted = str(request["governor"])
    before = current()
    due = dict.fromkeys(before, wanted)
    if not check:
        restore(due)
    return outcome(lines(before), lines(due))


def current() -> dict[str, str]:
    """Return the file of each processor, below the root -> its governor."""
    root = kernel.path_of()
    paths = sorted(glob.glob(os.path.join(glob.escape(root), FILES)))
    return {os.path.relpath(path, root): kernel.read(path) for path in paths}


def restore(governors: dict[str, str]) -> None:
    """Give each processor its governor and read it back. Raises Refused."""
    failures = [failure for path, name in governors.items() for failure in _set(path, name)]
    if failures:
        told = "; and {} more".format(len(failures) - 1) if len(failures) > 1 else ""
        raise Refused(failures[0] + told)


def lines(governors: dict[str, str]) -> list[str]:
    """Return a readable line for each governor."""
    return ["governor {} on {} CPUs".format(*row) for row in sorted(Counter(governors.values()).items())]


def _set(path: str, wanted: str) -> list[str]:
    """Return why the governor did not take, or nothing."""
    real = kernel.path_of(path)
    try:
        if kernel.read(real) != wanted:
            kernel.write(real, wanted)
        now = kernel.read(real)
    except OSError as error:
        offered = os.path.join(os.path.dirname(real), "scaling_available_governors")
        names = kernel.read(offered) if os.path.exists(offered) else "none told"
        return ["{}: cannot be set to {}: {} (offered: {})".format(path, wanted, why(error), names)]
    return [] if now == wanted else ["{}: set to {}, still {}".format(path, wanted, now)]
