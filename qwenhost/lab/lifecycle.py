"""Bringing a whole lab up and down, and saying how it is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from qwenhost.lab import cgroups, hosts, network
from qwenhost.lab.commands import require_root, require_tools
from qwenhost.lab.hosts import start_detached
from qwenhost.lab.image import image, release_sources
from qwenhost.lab.keys import ensure_keys
from qwenhost.lab.layout import INOTIFY_INSTANCES_PER_HOST, STATE, Lab, LabHost
from qwenhost.records.errors import FAILED, QwenhostError

BOOT_TIMEOUT_SECONDS = 120
PROXY_TIMEOUT_SECONDS = 30
INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")

Install = Callable[[Path, str, int], None]


@dataclass(frozen=True)
class Simulated:
    """What the hosts of a lab pretend to be: the SKU's name, and its number of GPUs."""

    sku: str
    gpus: int


@dataclass(frozen=True)
class HostStatus:
    """How one host is. Pids are this machine's; `state` is systemd's word, empty without SSH."""

    name: str
    address: str
    running: bool
    supervisor_pid: int | None
    init_pid: int | None
    ssh: bool
    state: str


def up(lab: Lab, count: int, simulated: Simulated, install: Install) -> list[HostStatus]:
    """Bring `count` hosts up and wait until each has booted.

    A host that runs is left as it is; one that died, or lost a part, is cleared and made afresh.
    `install` puts the simulator into a host's root before its boot.
    """
    require_root()
    require_tools()
    refuse_crowd(count, int(INOTIFY_LIMIT.read_text()))
    with locked(lab):
        wanted = [lab.host(number) for number in range(1, count + 1)]
        _prepare(lab, wanted, simulated)
        base, sources = image(), release_sources()
        with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
            booting = []
            for host in wanted:
                if not hosts.running(host):
                    hosts.make(host, base, sources, lambda root: install(root, simulated.sku, simulated.gpus))
                booting.append(pool.submit(_boot, host))
            _ensure_proxy(lab)
            return [future.result() for future in booting]


def down(lab: Lab) -> None:
    """End the lab and all remains of it; its keys stay, so that a later `up` is known by them."""
    require_root()
    with locked(lab):
        _clear_hosts(lab.hosts())
        cgroups.kill(cgroups.of_lab(lab))
        network.lower_network(lab)
        cgroups.remove(cgroups.of_lab(lab))
        cgroups.remove_if_empty(cgroups.TOP)
        lab.settings_file.unlink(missing_ok=True)
        lab.proxy_log.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (lab.folder / "hosts").rmdir()


def status(lab: Lab) -> list[HostStatus]:
    """Each host that runs or left remains; empty when the lab is down."""
    require_root()
    found = lab.hosts()
    with ThreadPoolExecutor(max_workers=max(1, len(found))) as pool:
        return list(pool.map(host_status, found))


def host_status(host: LabHost) -> HostStatus:
    """Look at one host."""
    supervisor = cgroups.processes(cgroups.of_supervisor(host))
    ssh = hosts.ssh_answers(host)
    return HostStatus(
        name=host.name,
        address=host.address,
        running=hosts.running(host),
        supervisor_pid=supervisor[0] if supervisor else None,
        init_pid=hosts.guest_init(host),
        ssh=ssh,
        state=hosts.system_state(host) if ssh else "",
    )


def running_host(lab: Lab, name: str) -> LabHost:
    """The host of this name; raises QwenhostError when it does not run."""
    require_root()
    host = lab.named(name)
    if not hosts.running(host):
        raise QwenhostError(f"{name} of lab {lab.name} is not running", hint="qwenhost lab up", exit_code=FAILED)
    return host


def refuse_crowd(count: int, inotify_limit: int) -> None:
    """Raise when the machine's limit of inotify instances is too low for so many guests."""
    room = inotify_limit // INOTIFY_INSTANCES_PER_HOST
    if count > room:
        raise QwenhostError(
            f"{count} hosts need more inotify instances than this machine allows: there is room for {room}",
            hint=f"raise fs.inotify.max_user_instances to {count * INOTIFY_INSTANCES_PER_HOST} yourself",
        )


@contextlib.contextmanager
def locked(lab: Lab) -> Iterator[None]:
    """Hold the lab's lock."""
    STATE.mkdir(parents=True, exist_ok=True)
    with (STATE / f"{lab.name}.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise QwenhostError(
                f"another `qwenhost lab` command is at work on lab {lab.name} (pid {lock.read().strip()})",
                hint="wait for it to end",
                exit_code=FAILED,
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _boot(host: LabHost) -> HostStatus:
    if not hosts.running(host):
        hosts.boot(host)
    hosts.await_booted(host, BOOT_TIMEOUT_SECONDS)
    return host_status(host)


def _prepare(lab: Lab, wanted: list[LabHost], simulated: Simulated) -> None:
    """Clear what is dead, then settings, keys and bridge."""
    network.refuse_overlap(lab)
    whole = network.exists(lab.netns)
    _clear_hosts([host for host in lab.hosts() if not (whole and hosts.running(host))])
    if not lab.hosts():
        lab.settings_file.unlink(missing_ok=True)
    _settle(lab, simulated)
    ensure_keys(lab, wanted)
    network.raise_network(lab)


def _settle(lab: Lab, simulated: Simulated) -> None:
    if not lab.settings_file.exists():
        lab.folder.mkdir(parents=True, exist_ok=True)
        lab.settings_file.write_text(json.dumps(asdict(simulated)))
    elif (known := Simulated(**json.loads(lab.settings_file.read_text()))) != simulated:
        raise QwenhostError(
            f"lab {lab.name} is up with {known.gpus} x {known.sku}, not {simulated.gpus} x {simulated.sku}",
            hint="qwenhost lab down",
        )


def _clear_hosts(dead: list[LabHost]) -> None:
    hosts.halt(dead)
    for host in dead:
        hosts.clear(host)


def _ensure_proxy(lab: Lab) -> None:
    """Start the package proxy unless it runs, and wait until it listens."""
    if cgroups.processes(cgroups.of_proxy(lab)):
        return
    lab.proxy_log.write_text("")
    start_detached(hosts.module("proxy", lab.name), lab.proxy_log)
    deadline = time.monotonic() + PROXY_TIMEOUT_SECONDS
    while not lab.proxy_log.read_text().startswith("serving"):
        if time.monotonic() > deadline:
            raise QwenhostError(
                f"the package proxy does not listen on {lab.machine_address}",
                hint=f"its messages are in {lab.proxy_log}",
                exit_code=FAILED,
            )
        time.sleep(hosts.POLL_SECONDS)
