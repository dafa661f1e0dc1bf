"""Examine hosts: read, parse, expect, judge. The same for this host, hosts over SSH, and recorded bundles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from typing import Any

from qwenhost.checks.engine import examine
from qwenhost.expectations import settings
from qwenhost.expectations.declared import Declared, read_declared
from qwenhost.expectations.driver_settings import driver_settings
from qwenhost.expectations.resolve import resolve
from qwenhost.expectations.skus import skus
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations
from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import HostReport
from qwenhost.records.host import Host
from qwenhost.records.peers import Peers
from qwenhost.records.source import Source
from qwenhost.transports import fleet, local, recorded
from qwenhost.workflows import observed
from qwenhost.workflows.asked import sources_of
from qwenhost.workflows.peers import peers_of
from qwenhost.workflows.reach import out_of_reach
from qwenhost.workflows.trials import tried, were_tried

__all__ = [
    "examine_bundle",
    "examine_here",
    "examine_hosts",
    "examine_recorded",
    "expectations_of",
    "expectations_on",
    "get_ready",
    "role_settings",
    "sources_of",
]

PROFILE = "qwenhost_profile"


def examine_here(profile: str = "", trials: bool = False) -> HostReport:
    """Examine this host; nothing is declared for it but a profile, if one is named."""
    declared = _declared(None, "this host", profile)
    with _getting_ready():
        bundle = local.fetch(sources_of(declared))
    return examine_bundle(tried(bundle, local.try_out) if trials else bundle, declared)


def get_ready() -> None:
    """Load what the judgement of any host needs, by judging one of which nothing was seen."""
    skus()
    examine_bundle(Bundle("", ()), read_declared({}, host=""))


@contextmanager
def _getting_ready() -> Iterator[None]:
    """Do so while hosts answer."""
    ready = Thread(target=get_ready)
    ready.start()
    yield
    ready.join()


def examine_recorded(path: str, host: Host | None, profile: str = "") -> HostReport:
    """Examine a recorded bundle ("-": standard input), held against what is declared for `host`."""
    declared = _declared(host, path, profile)
    return examine_bundle(recorded.read(path), declared)


def examine_hosts(
    hosts: Sequence[Host], trials: bool = False, known: Mapping[str, Bundle] | None = None
) -> tuple[HostReport, ...]:
    """Examine hosts at the same time; one that cannot be reached has a report that says so.

    `known`: bundles by host name, of hosts that need not be asked.
    Raises QwenhostError before any host is contacted when a declaration is wrong.
    """
    declared = {host.name: _declared(host, host.name) for host in hosts}

    def bundle_of(host: Host) -> Bundle:
        return (known or {}).get(host.name) or _fetch(host, sources_of(declared[host.name]), trials)

    with _getting_ready():
        answers = tuple(fleet.fetch_all(hosts, bundle_of))
    alike = peers_of([answer.bundle for answer in answers if answer.bundle])
    report = _report if len(hosts) == 1 else _report_at_any_rate
    return tuple(report(answer, declared[answer.host.name], alike) for answer in answers)


def examine_bundle(bundle: Bundle, declared: Declared, peers: Peers | None = None) -> HostReport:
    """Judge a bundle, also against its peers where it has some; pure."""
    want = replace(expectations_of(bundle, declared), peers=peers or {}, trials=were_tried(bundle))
    return HostReport(
        host=bundle.host,
        sku=want.sku.name if want.sku else "",
        findings=examine(bundle, want),
        unrecognised=bundle.unrecognised,
        notes=dict(bundle.notes),
        bundle=bundle,
    )


def expectations_of(bundle: Bundle, declared: Declared) -> Expectations:
    """Return what should be: the declaration, completed by what kind of host was seen, and what it cannot have."""
    want = resolve(
        declared,
        pci_device_ids=observed.pci_device_ids(bundle),
        numa_nodes=observed.numa_nodes(bundle),
        gpus=observed.gpu_count(bundle),
    )
    return replace(want, out_of_reach=out_of_reach(bundle, want))


def expectations_on(host: Host | None) -> Expectations:
    """Read a host over SSH, or this one (None), and return what it should be."""
    declared = _declared(host, "this host")
    sources = sources_of(declared)
    return expectations_of(_fetch(host, sources, trials=False) if host else local.fetch(sources), declared)


def role_settings(bundle: Bundle, declared: Declared) -> dict[str, Any]:
    """Return the arguments of all roles for the host that a bundle is from."""
    want = expectations_of(bundle, declared)
    return {
        **settings.role_settings(want, observed.sysctl(bundle), observed.placement(bundle)),
        **driver_settings(want.driver, observed.driver_place(bundle)),
    }


def _declared(host: Host | None, name: str, profile: str = "") -> Declared:
    variables = dict(host.variables) if host else {}
    if profile:
        variables[PROFILE] = profile
    return read_declared(variables, host=host.name if host else name, where=host.origin if host else "")


def _fetch(host: Host, sources: Iterable[Source], trials: bool) -> Bundle:
    from qwenhost.transports import ssh  # Fabric costs 0.2 s, and only remote hosts need it

    bundle = ssh.fetch(host, sources)
    return tried(bundle, lambda asked: ssh.try_out(host, asked)) if trials else bundle


def _report(answer: fleet.Answer, declared: Declared, alike: Mapping[str, Peers]) -> HostReport:
    if answer.bundle is None:
        hint = answer.error.hint if answer.error else ""
        return HostReport(answer.host.name, "", (), error=str(answer.error), hint=hint)
    return examine_bundle(answer.bundle, declared, alike.get(answer.bundle.host))


def _report_at_any_rate(answer: fleet.Answer, declared: Declared, alike: Mapping[str, Peers]) -> HostReport:
    """Return the report of one host of many: a fault of ours in judging it is its error, not the run's end."""
    name = answer.host.name
    try:
        return _report(answer, declared, alike)
    except QwenhostError:
        raise
    except Exception as error:
        told = f"{name}: internal error: {type(error).__name__}: {error}"
        return HostReport(name, "", (), error=told, hint=f"examine {name} alone with --debug")
