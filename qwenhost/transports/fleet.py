"""Many hosts at once; one host's failure never ends the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from qwenhost.records.bundle import Bundle
from qwenhost.records.errors import HostUnreachable
from qwenhost.records.host import Host

AT_ONCE = 32
"""Hosts that are asked at the same time."""

TURN_SECONDS = 0.2
"""Waiting goes in turns: an interrupt that another thread takes does not wake the main one."""


@dataclass(frozen=True)
class Answer:
    """What came of one host: a bundle, or why there is none."""

    host: Host
    bundle: Bundle | None
    error: HostUnreachable | None = None


def fetch_all(hosts: Iterable[Host], fetch: Callable[[Host], Bundle], at_once: int = AT_ONCE) -> Iterator[Answer]:
    """Ask all hosts; return the answers in the order of the hosts, each as soon as those before are there.

    Who interrupts it does not wait for hosts that are still being asked.
    """
    pool = ThreadPoolExecutor(max_workers=at_once)
    try:
        for future in [pool.submit(_ask, host, fetch) for host in hosts]:
            while not future.done():
                wait([future], timeout=TURN_SECONDS)
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _ask(host: Host, fetch: Callable[[Host], Bundle]) -> Answer:
    try:
        return Answer(host, fetch(host))
    except HostUnreachable as error:
        return Answer(host, None, error)
    except Exception as error:
        told = HostUnreachable(f"{host.name}: internal error: {type(error).__name__}: {error}")
        return Answer(host, None, told)
