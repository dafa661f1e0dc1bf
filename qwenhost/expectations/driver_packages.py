"""Which packages a driver consists of, by distribution, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from qwenhost.expectations.tables import refuse_unknown, table
from qwenhost.records.desired import Driver
from qwenhost.records.versions import branch, older

FILE = "software/driver_packages.yaml"

_KEYS = ("schema", "branches", "distributions", "repository_key", "fabric_manager", "packages")


@dataclass(frozen=True)
class PackageSource:
    """A flat APT repository. `key_url`: where its key is, empty where one was given or none is needed.

    `trusted`: its files need no signature, because root put them on the host's disk.
    """

    uri: str
    key_url: str = ""
    trusted: bool = False


def pinned_versions() -> Mapping[str, str]:
    """Return branch -> the version that is installed where only the branch is declared."""
    return {name: row["version"] for name, row in _table()["branches"].items()}


def distributions() -> tuple[str, ...]:
    """Return the distributions that a driver can be installed on, such as ubuntu-24.04."""
    return tuple(_table()["distributions"])


def package_names(version: str, distribution: str, fabric: bool) -> tuple[str, ...]:
    """Return the names of a driver's packages, none for a distribution or branch that the table lacks.

    `fabric`: with the fabric manager, for NVSwitches.
    """
    family = _table()["distributions"].get(distribution, {}).get("family")
    rows = [row for row in _table()["packages"] if row["family"] == family and not older(version, row["from"])]
    if not rows:
        return ()
    names = [name.format(branch=branch(version)) for name in rows[0]["names"]]
    return (*names, *((fabric_manager(),) if fabric else ()))


def fabric_manager() -> str:
    """Return the package of the fabric manager."""
    return str(_table()["fabric_manager"]["value"])


def package_source(driver: Driver, distribution: str) -> PackageSource:
    """Return where the packages come from: a folder of the host, a mirror, or NVIDIA's repository."""
    if driver.folder:
        return PackageSource(f"file:{driver.folder}", trusted=not driver.key_file)
    if driver.mirror:
        return PackageSource(driver.mirror)
    uri = str(_table()["distributions"].get(distribution, {}).get("repository", ""))
    return PackageSource(uri, "" if driver.key_file else f"{uri}/{_table()['repository_key']['value']}")


@cache
def _table() -> Mapping[str, Any]:
    raw = table(FILE)
    refuse_unknown(FILE, raw, _KEYS)
    return raw
