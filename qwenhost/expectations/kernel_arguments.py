"""Arguments for the kernel: the profile's, the inventory's, and those that reserve pages of 1 GiB at boot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from qwenhost.expectations.profiles import Profile
from qwenhost.expectations.reader import Reader
from qwenhost.records.desired import HugepagePool, Setting

GIB_KIB = 1 << 20
WHOLE_HOST = -1
PAGES = "hugepagesz"
"""Key of the setting that reserves pages of 1 GiB."""

_ARGUMENT = re.compile(r"[A-Za-z][\w.-]*(=[\w.:,=@/+-]+)?")
_BY_POOLS = ("hugepages", "hugepagesz", "default_hugepagesz")


def read_kernel_args(reader: Reader, value: Any) -> tuple[str, ...]:
    """Read a list of arguments, or refuse what the shell and GRUB would not take as it is."""
    key = "qwenhost_kernel_args"
    if not isinstance(value, list):
        reader.refuse(key, f"{value!r} is no list", "such as [intel_iommu=on, pci=disable_acs_redir=pci:0:0]")
    for word in value:
        if not isinstance(word, str) or not _ARGUMENT.fullmatch(word):
            reader.refuse(key, f"{word!r} is no single kernel argument", "such as intel_iommu=on, without blanks")
        if _name(word) in _BY_POOLS:
            reader.refuse(key, f"{word}: pages are declared as pools", "use qwenhost_hugepages")
    twice = [name for name, count in Counter(map(_name, value)).items() if count > 1 and name != "console"]
    if twice:
        reader.refuse(key, f"{twice[0]} stands twice")
    return tuple(value)


def kernel_args(
    wanted: Profile, declared: Iterable[str], pools: Iterable[HugepagePool], nodes: Collection[int]
) -> tuple[Setting, ...]:
    """Return the profile's arguments, those of the inventory in their place or after them, then pages.

    `nodes`: NUMA nodes that were seen.
    """
    lines = {setting.key: setting for setting in wanted.kernel_args}
    for word in declared:
        origin = "inventory: qwenhost_kernel_args"
        lines[word if _name(word) == "console" else _name(word)] = Setting(
            word, word, "Declared in the inventory.", origin
        )
    large = [pool for pool in pools if pool.size_kib == GIB_KIB and pool.pages]
    return (*lines.values(), *((_pages(large, nodes),) if large else ()))


def _pages(pools: list[HugepagePool], nodes: Collection[int]) -> Setting:
    """Return what reserves the pages: a total, which the kernel spreads evenly, or pages by node.

    By node from Linux 5.16 on (Documentation/admin-guide/kernel-parameters, hugepages).
    """
    everywhere = {pool.node for pool in pools} in ({WHOLE_HOST}, set(nodes))
    even = everywhere and len({pool.pages for pool in pools}) == 1
    total = str(sum(pool.pages for pool in pools))
    by_node = ",".join(f"{pool.node}:{pool.pages}" for pool in pools)
    return Setting(
        PAGES,
        f"hugepagesz=1G hugepages={total if even else by_node}",
        "Later, memory is too fragmented for pages of 1 GiB.",
        pools[0].origin,
    )


def _name(word: str) -> str:
    return word.partition("=")[0]
