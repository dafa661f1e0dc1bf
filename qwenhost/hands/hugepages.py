"""Pools of huge pages, of the whole host or of one NUMA node."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from qwenhost.hands import kernel
from qwenhost.hands.answer import Refused, outcome, why

WHOLE_HOST = -1
GIB_KIB = 1 << 20
ATTEMPTS = 3
"""The kernel gives what it finds contiguous; another compaction often finds more."""


class Pool(NamedTuple):
    """Pages wanted of one size on one NUMA node (WHOLE_HOST: the kernel spreads them)."""

    node: int
    size_kib: int
    pages: int

    def describe(self, pages: int) -> str:
        """Return a line such as "node 0: 512 pages of 2048 KiB"."""
        place = "host" if self.node == WHOLE_HOST else "node {}".format(self.node)
        return "{}: {} pages of {} KiB".format(place, pages, self.size_kib)


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Bring {"pools": [{"node", "size_kib", "pages"}]} into force. Raises Refused with what was obtained.

    Pages of 1 GiB that "reserved_at_boot" names as the kernel's own business may be short until that boot.
    """
    pools = [Pool(int(p["node"]), int(p["size_kib"]), int(p["pages"])) for p in request["pools"]]
    _refuse_too_many(pools)
    files = {pool: _file(pool) for pool in pools}
    before = {pool: _count(pool, files[pool]) for pool in pools}
    if check:
        return outcome(_lines(before), [pool.describe(pool.pages) for pool in pools])
    if any(before[pool] < pool.pages for pool in pools):
        _compact()
    shrink_first = sorted(pools, key=lambda pool: pool.pages - before[pool])
    failures = {pool: failure for pool in shrink_first for failure in _resize(pool, files[pool])}
    waiting = [pool for pool in failures if request.get("reserved_at_boot") and _comes_at_boot(pool)]
    if set(failures) - set(waiting):
        raise Refused("; ".join(failures.values()))
    after = _lines({pool: _count(pool, files[pool]) for pool in pools})
    return outcome(_lines(before), after, "; ".join(failures[pool] for pool in waiting))


def _refuse_too_many(pools: list[Pool]) -> None:
    """Refuse pages that would leave nothing to run in: the kernel would give what it has."""
    wanted, total = sum(pool.pages * pool.size_kib for pool in pools), _memory_kib()
    if total and wanted >= total:
        shown = [round(kib / GIB_KIB) for kib in (wanted, total)]
        raise Refused("{} GiB of huge pages on a host with {} GiB of memory".format(*shown))


def _memory_kib() -> int:
    """Return the memory of this host, 0 where nothing tells."""
    try:
        lines = kernel.read(kernel.path_of("proc/meminfo")).splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("MemTotal:")), 0)


def current() -> list[dict[str, Any]]:
    """Return all pools of this host as a request has them: by node, or of the host where it has none."""
    nodes = kernel.path_of("sys/devices/system/node")
    numbers = [int(name[4:]) for name in kernel.names(nodes) if name[:4] == "node" and name[4:].isdigit()]
    places = [(node, os.path.join(nodes, "node{}".format(node), "hugepages")) for node in numbers]
    found = [pool for node, folder in places for pool in _pools_in(node, folder)]
    return found or _pools_in(WHOLE_HOST, kernel.path_of("sys/kernel/mm/hugepages"))


def _pools_in(node: int, folder: str) -> list[dict[str, Any]]:
    sizes = [int(name.split("-")[1][:-2]) for name in kernel.names(folder) if "-" in name]
    pools = [Pool(node, size, 0) for size in sorted(sizes)]
    return [pool._replace(pages=_count(pool, _file(pool)))._asdict() for pool in pools]


def lines(pools: list[dict[str, Any]]) -> list[str]:
    """Return a readable line for each pool of a request."""
    return [Pool(**pool).describe(pool["pages"]) for pool in pools]


def _file(pool: Pool) -> str:
    nodes = kernel.path_of("sys/devices/system/node")
    folder = os.path.join(nodes, "node{}".format(pool.node))
    if pool.node != WHOLE_HOST and not os.path.isdir(folder):
        present = ", ".join(name[4:] for name in kernel.names(nodes) if name[4:].isdigit())
        raise Refused("this host has no NUMA node {} (it has: {})".format(pool.node, present or "none"))
    base = kernel.path_of("sys/kernel/mm/hugepages")
    if pool.node != WHOLE_HOST:
        base = os.path.join(folder, "hugepages")
    size = os.path.join(base, "hugepages-{}kB".format(pool.size_kib))
    if not os.path.isdir(size):
        offered = ", ".join(name.split("-")[1] for name in kernel.names(base) if "-" in name)
        raise Refused("no huge pages of {} kB here (offered: {})".format(pool.size_kib, offered or "none"))
    return os.path.join(size, "nr_hugepages")


def _count(pool: Pool, path: str) -> int:
    try:
        return int(kernel.read(path))
    except (OSError, ValueError) as error:
        raise Refused("{}: cannot be read: {}".format(pool.describe(pool.pages), why(error))) from error


def _resize(pool: Pool, path: str) -> list[str]:
    """Return why the pool has not its size, or nothing."""
    obtained = _count(pool, path)
    for attempt in range(ATTEMPTS):
        if obtained == pool.pages:
            return []
        if attempt and obtained < pool.pages:
            _compact()
        try:
            kernel.write(path, str(pool.pages))
        except OSError as error:
            return ["{}: cannot be set: {}".format(pool.describe(pool.pages), why(error))]
        obtained = _count(pool, path)
    return [] if obtained == pool.pages else [_shortage(pool, obtained)]


def _comes_at_boot(pool: Pool) -> bool:
    """Tell whether the next boot reserves these pages, and this one was not asked to."""
    asked = kernel.read(kernel.path_of("proc/cmdline")).split()
    return pool.size_kib == GIB_KIB and "hugepagesz=1G" not in asked


def _shortage(pool: Pool, obtained: int) -> str:
    cause = "memory is full or fragmented, a reboot gives a fresh one"
    if obtained > pool.pages:
        cause = "the others are in use"
    return "{} wanted, {} there: {}".format(pool.describe(pool.pages), obtained, cause)


def _compact() -> None:
    """Ask the kernel to compact memory; a host that does not allow it is served as well as it can be."""
    try:
        kernel.write(kernel.path_of("proc/sys/vm/compact_memory"), "1")
    except OSError:
        return


def _lines(counts: dict[Pool, int]) -> list[str]:
    return [pool.describe(pages) for pool, pages in counts.items()]
