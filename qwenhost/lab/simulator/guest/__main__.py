"""Entry of every stand-in program: `run NAME ARGUMENTS`."""

from __future__ import annotations

import sys
from collections.abc import Callable


def _power_on(_arguments: list[str]) -> int:
    from . import power_on

    return power_on.main()


def _service(name: str) -> Callable[[list[str]], int]:
    def call(arguments: list[str]) -> int:
        from . import services

        run: Callable[[list[str]], int] = getattr(services, name)
        return run(arguments)

    return call


def _dmesg(arguments: list[str]) -> int:
    from . import dmesg

    return dmesg.main(arguments)


def _installed(arguments: list[str]) -> int:
    from . import installed

    return installed.main(arguments)


def _smi(arguments: list[str]) -> int:
    from .smi import main

    return main.main(arguments)


PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    "power-on": _power_on,
    "installed": _installed,
    "watch": _service("watch"),
    "nv-fabricmanager": _service("fabric_manager"),
    "nvidia-persistenced": _service("persistence_daemon"),
    "dmesg": _dmesg,
    "nvidia-smi": _smi,
}

if __name__ == "__main__":
    sys.exit(PROGRAMS[sys.argv[1]](sys.argv[2:]))
