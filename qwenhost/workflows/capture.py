"""A bundle to send to somebody: everything that doctor would read, without what identifies the host."""

from __future__ import annotations

from dataclasses import replace

from qwenhost.expectations.declared import read_declared
from qwenhost.records.bundle import Bundle
from qwenhost.records.host import Host
from qwenhost.transports import local
from qwenhost.workflows.asked import sources_of, standing_sources
from qwenhost.workflows.scrub import HOST_NAME, Scrubber


def capture(host: Host | None, *, scrub: bool = True) -> Bundle:
    """Read all sources of this host, or of `host` over SSH. Raises HostUnreachable."""
    bundle = _fetch(host)
    return scrubbed(bundle) if scrub else bundle


def _fetch(host: Host | None) -> Bundle:
    if host is None:
        return local.fetch(standing_sources())
    from qwenhost.transports import ssh  # Fabric costs 0.2 s, and only remote hosts need it

    return ssh.fetch(host, sources_of(read_declared(host.variables, host=host.name, where=host.origin)))


def scrubbed(bundle: Bundle) -> Bundle:
    """Return the bundle with serials, UUIDs, host names and addresses replaced, the same by the same."""
    scrubber = Scrubber.over(bundle.host, [capture.text for capture in bundle.captures])
    captures = tuple(
        replace(capture, text=scrubber.clean(capture.text), error=scrubber.clean(capture.error))
        for capture in bundle.captures
    )
    return replace(bundle, host=HOST_NAME, captures=captures)
