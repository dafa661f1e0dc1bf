"""Examine hosts: read, parse, expect, judge. The same for this host, hosts over SSH, and recorded bundles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qwenhost.checks.engine import examine
from qwenhost.expectations.declared import Declared, read_declared
from qwenhost.expectations.resolve import resolve
from qwenhost.facts import registry
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.pci import PciDevices
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import HostReport
from qwenhost.records.host import Host
from qwenhost.records.source import Source
from qwenhost.transports import fleet, local, recorded

LOCAL_CONNECTION = "local"


def examine_here(profile: str = "") -> HostReport:
    """Examine this host; nothing is declared for it but a profile, if one is named."""
    declared = read_declared(_variables(profile), host="this host")
    return examine_bundle(local.fetch(sources_of(declared)), declared)


def examine_recorded(path: str, host: Host | None, profile: str = "") -> HostReport:
    """Examine a recorded bundle, held against what is declared for `host`."""
    variables = host.variables if host else _variables(profile)
    return examine_bundle(recorded.read(path), read_declared(variables, host=host.name if host else path))


def examine_hosts(hosts: Sequence[Host]) -> tuple[HostReport, ...]:
    """Examine hosts at the same time; one that cannot be reached has a report that says so.

    Raises QwenhostError before any host is contacted when a declaration is wrong.
    """
    declared = {host.name: read_declared(host.variables, host=host.name) for host in hosts}
    answers = fleet.fetch_all(hosts, lambda host: _fetch(host, sources_of(declared[host.name])))
    return tuple(_report(answer, declared[answer.host.name]) for answer in answers)


def examine_bundle(bundle: Bundle, declared: Declared) -> HostReport:
    """Judge a bundle; pure."""
    want = expectations_of(bundle, declared)
    return HostReport(
        host=bundle.host,
        sku=want.sku.name if want.sku else "",
        findings=examine(bundle, want),
        unrecognised=bundle.unrecognised,
        notes=dict(bundle.notes),
    )


def expectations_of(bundle: Bundle, declared: Declared) -> Expectations:
    """Return what should be: the declaration, with the product told by the PCI ids that were seen."""
    return resolve(declared, pci_device_ids(bundle))


def pci_device_ids(bundle: Bundle) -> tuple[str, ...]:
    """Return the PCI device ids of the GPUs in a bundle, once each, as the bus or the driver tells them."""
    gpus, devices = registry.read(bundle, Gpus), registry.read(bundle, PciDevices)
    found: list[str | None] = []
    if isinstance(gpus, registry.Seen):
        found += [gpu.device_id for gpu in gpus.fact.gpus]
    if isinstance(devices, registry.Seen):
        found += [device.device for device in devices.fact.gpus]
    return tuple(dict.fromkeys(device_id for device_id in found if device_id))


def sources_of(declared: Declared) -> tuple[Source, ...]:
    """Return what is read on a host."""
    return registry.sources()


def _fetch(host: Host, sources: Iterable[Source]) -> Bundle:
    if host.variables.get("ansible_connection") == LOCAL_CONNECTION:
        return local.fetch(sources, host.name)
    from qwenhost.transports import ssh  # Fabric costs 0.2 s, and only remote hosts need it

    return ssh.fetch(host, sources)


def _report(answer: fleet.Answer, declared: Declared) -> HostReport:
    if answer.bundle is None:
        hint = answer.error.hint if answer.error else ""
        return HostReport(answer.host.name, "", (), error=str(answer.error), hint=hint)
    return examine_bundle(answer.bundle, declared)


def _variables(profile: str) -> dict[str, str]:
    return {"qwenhost_profile": profile} if profile else {}
