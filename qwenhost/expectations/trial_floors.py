"""What a trial should reach at least, from data/trials.yaml. All rates in GB/s (1e9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.expectations.tables import refuse_unknown, table
from qwenhost.records.desired import Sku

PATH = "trials.yaml"
ORIGIN = "data/trials.yaml"

_KEYS = (
    "schema",
    "host_copy_floor_part",
    "peer_copy_floor_part",
    "device_memory_floor_part",
    "all_reduce_floor_part",
    "pcie_lane_gb_per_s",
    "nvlink_link_gb_per_s",
    "memory_gb_per_s",
    "sources",
)


@dataclass(frozen=True)
class Floors:
    """Least rates of one product; None where the product's own figure is not known."""

    host_copy: float | None
    device_memory: float | None
    peer_copy_per_link: float | None
    all_reduce_per_link: float | None


def floors(sku: Sku | None) -> Floors:
    """Return the least rates of a product. Raises BadData for a broken table."""
    raw = table(PATH)
    refuse_unknown(PATH, raw, _KEYS)
    if sku is None:
        return Floors(None, None, None, None)
    lane, link = raw["pcie_lane_gb_per_s"].get(sku.pcie_generation), raw["nvlink_link_gb_per_s"].get(sku.family)
    return Floors(
        host_copy=_part(raw, "host_copy", (lane or 0) * (sku.pcie_width or 0)),
        device_memory=_part(raw, "device_memory", raw["memory_gb_per_s"].get(sku.name)),
        peer_copy_per_link=_part(raw, "peer_copy", link),
        all_reduce_per_link=_part(raw, "all_reduce", link),
    )


def _part(raw: Mapping[str, float], trial: str, whole: float | None) -> float | None:
    return whole * raw[f"{trial}_floor_part"] if whole else None
