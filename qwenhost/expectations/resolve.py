"""Join board, software, profile and inventory into what is expected of one host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from qwenhost.expectations.declared import Declared
from qwenhost.expectations.kernel_arguments import kernel_args
from qwenhost.expectations.profiles import Profile, profile
from qwenhost.expectations.skus import by_device_id
from qwenhost.expectations.software import driver_floor
from qwenhost.records.desired import Expectations, HugepagePool, MigLayout, Setting, Sku

WHOLE_HOST = -1
"""NUMA node of a pool that is not split."""


def resolve(
    declared: Declared, pci_device_ids: Sequence[str] = (), numa_nodes: Sequence[int] = (), gpus: int = 0
) -> Expectations:
    """Return the expectations of one host, each with its origin.

    `pci_device_ids`: ids of the GPUs seen (four hexadecimal digits); they tell the board where none is
    declared. `numa_nodes`: nodes that were seen, over which page totals are split evenly.
    `gpus`: number seen, for layouts declared for all GPUs where no count is declared.
    """
    wanted = profile(declared.profile) if declared.profile else Profile("", (), (), None)
    floor = driver_floor(declared.serving.version) if declared.serving else None
    pools = tuple(_pools(declared, sorted(numa_nodes)))
    needs_driver = declared.serving is not None and declared.serving.package == "vllm"
    return Expectations(
        sku=declared.sku or _seen_sku(pci_device_ids),
        gpus=declared.gpus,
        gpus_origin="inventory: qwenhost_gpus" if declared.gpus is not None else "",
        profile=declared.profile,
        sysctl=_sysctl(wanted, declared),
        transparent_hugepages=wanted.transparent_hugepages,
        limits=wanted.limits,
        hugepages=pools,
        governor=wanted.governor,
        swap=declared.swap,
        shm=declared.shm,
        nvidia_options=declared.nvidia_options,
        kernel_args=kernel_args(wanted, declared.kernel_args, pools, numa_nodes),
        mig=_layouts(declared, gpus),
        drain=declared.drain,
        driver_version=declared.driver_version,
        driver=declared.driver,
        driver_floor=floor.version if floor and needs_driver else "",
        driver_floor_origin=floor.origin if floor and needs_driver else "",
        serving=declared.serving,
        bridged_pairs=declared.bridged_pairs,
        ecc=declared.ecc,
    )


def _seen_sku(pci_device_ids: Iterable[str]) -> Sku | None:
    """Return the board that was seen; None for none, for an unknown one and for a mixture."""
    found = [by_device_id(device_id) for device_id in pci_device_ids]
    names = {sku.name if sku else "" for sku in found}
    return found[0] if len(names) == 1 else None


def _sysctl(wanted: Profile, declared: Declared) -> tuple[Setting, ...]:
    """Return the profile's lines, those of the inventory in their place or after them."""
    lines = {setting.key: setting for setting in wanted.sysctl}
    for key, value in declared.sysctl.items():
        origin = f"inventory: qwenhost_sysctl.{key}"
        known = lines.get(key, Setting(key, value, "Declared in the inventory.", origin))
        lines[key] = replace(known, value=value, origin=origin, raise_only=False)
    return tuple(lines.values())


def _pools(declared: Declared, nodes: list[int]) -> Iterator[HugepagePool]:
    for size_kib, pages in declared.hugepages.items():
        origin = "inventory: qwenhost_hugepages"
        if not isinstance(pages, int):
            yield from (HugepagePool(node, size_kib, count, origin) for node, count in pages.items())
        elif nodes:
            yield from _split(pages, size_kib, nodes, origin)
        else:
            yield HugepagePool(WHOLE_HOST, size_kib, pages, origin)


def _split(pages: int, size_kib: int, nodes: list[int], origin: str) -> Iterator[HugepagePool]:
    """Spread pages evenly; what is left over goes to the first nodes."""
    each, left = divmod(pages, len(nodes))
    for place, node in enumerate(nodes):
        yield HugepagePool(node, size_kib, each + (place < left), origin)


def _layouts(declared: Declared, seen: int) -> tuple[MigLayout, ...] | None:
    if declared.mig is None:
        return None
    named = [gpu + 1 for gpu in declared.mig.named]
    count = declared.gpus if declared.gpus is not None else max([seen, *named])
    found = (declared.layout_of(gpu) for gpu in range(count))
    return tuple(layout for layout in found if layout is not None)
