"""State of the simulated machine: flat `key=value` lines, replaced atomically under a lock.

The C library (native/state.c) reads and writes the same file by the same rules. `gpuN.KEY` falls back to
`board.KEY`, so that a GPU carries only what sets it apart. A key that is absent means: not supported.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

FOLDER = "var/lib/a100sim"

if TYPE_CHECKING:
    Values = dict[str, str]


def root() -> Path:
    """Return the root of the simulated host: A100SIM_ROOT, `/` by default."""
    return Path(os.environ.get("A100SIM_ROOT", "/"))


def folder(host_root: Path | None = None) -> Path:
    """Return the simulator's folder below a host root."""
    return (host_root or root()) / FOLDER


def read(host_root: Path | None = None) -> Values:
    """Return all keys. Raises FileNotFoundError where no simulator is installed."""
    lines = (folder(host_root) / "state").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def write(values: Values, host_root: Path | None = None) -> None:
    """Replace the file; callers that change a part of it use `change`."""
    where = folder(host_root)
    beside = where / f"state.{os.getpid()}"
    beside.write_text("".join(f"{key}={values[key]}\n" for key in sorted(values)), encoding="utf-8")
    beside.chmod(0o644)
    beside.replace(where / "state")


@contextmanager
def change(host_root: Path | None = None) -> Iterator[Values]:
    """Yield the keys for changing, under the lock; they are written when the block ends well."""
    with (folder(host_root) / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        values = read(host_root)
        before = dict(values)
        yield values
        if values != before:
            write(values, host_root)


def slots(values: Values) -> list[int]:
    """Return the board slots that hold a GPU which the driver sees, in index order."""
    return [slot for slot in range(int(values["gpu.count"])) if values.get(f"gpu{slot}.present", "1") == "1"]


def get(values: Values, slot: int, key: str, default: str = "") -> str:
    """Return a value of one GPU, else of its board."""
    return values.get(f"gpu{slot}.{key}", values.get(f"board.{key}", default))


def number(values: Values, slot: int, key: str, default: int = 0) -> int:
    """Return a whole number of one GPU, else of its board."""
    return int(get(values, slot, key, str(default)) or default)
