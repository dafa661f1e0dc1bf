"""The arguments of the role gpu_driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from qwenhost.expectations.driver_packages import package_names, package_source
from qwenhost.records.desired import Driver


@dataclass(frozen=True)
class BuildKernel:
    """A kernel that needs the module, and whether its headers are there."""

    release: str
    headers: bool


@dataclass(frozen=True)
class DriverPlace:
    """What was seen of the host: its distribution, whether it has NVSwitches, kernels that need a module."""

    distribution: str
    switches: bool
    kernels: Sequence[BuildKernel] = ()


def driver_settings(driver: Driver | None, place: DriverPlace) -> dict[str, Any]:
    """Return every argument of the role, none where no driver is declared."""
    if driver is None:
        return {}
    return {
        "gpu_driver_version": driver.version,
        "gpu_driver_packages": list(package_names(driver.version, place.distribution, place.switches)),
        "gpu_driver_kernels": [asdict(kernel) for kernel in place.kernels],
        "gpu_driver_source": asdict(package_source(driver, place.distribution)),
        "gpu_driver_fabric": place.switches,
    }
