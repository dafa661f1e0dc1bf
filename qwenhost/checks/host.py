"""Host settings: what the profile and the inventory ask for, against what the kernel has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from qwenhost.checks.declare import Judgement, check, equal, judged, skip
from qwenhost.facts.boot_loader import BootLoader
from qwenhost.facts.cpus import KernelArgs
from qwenhost.facts.hugepages import WHOLE_HOST, Hugepages, HugepageShortfall
from qwenhost.facts.memory import Memory
from qwenhost.facts.sysctl import Sysctl, SysctlAdvice, SysctlFiles
from qwenhost.facts.transparent_hugepages import TransparentHugepages
from qwenhost.records.desired import Expectations, HugepagePool, Setting
from qwenhost.records.finding import Verdict, by_hand, by_reboot, by_role

NO_PROFILE = "no profile is declared (qwenhost_profile, or --profile)"

TCP_BUFFERS = ("net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")

PAGES_ASKED = "vm.nr_hugepages"
DEFAULT_PAGE_KIB = 2048

NUMA_BALANCING = "kernel.numa_balancing"
"""Judged by host.numa-balancing."""

BACKLOGS = ("net.core.netdev_max_backlog", "net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog")

TUNED = by_role("host_tuning")

NO_SUCH_POOL = by_hand("Declare a node and a page size that this host has: see /sys/devices/system/node.")


LARGE = "hugepagesz=1G"
GIB_KIB = 1 << 20

AT_BOOT = by_reboot("Reboot in the next window: the kernel reserves them before memory is fragmented.")


def _declares(attribute: str) -> Callable[[Expectations], bool]:
    return lambda want: bool(getattr(want, attribute))


@check(
    "host.hugepages",
    remedy=by_role("host_tuning", "Run qwenhost provision: the role host_tuning reserves them."),
)
def hugepages(
    pools: Hugepages,
    files: SysctlFiles | None,
    short: HugepageShortfall | None,
    running: KernelArgs | None,
    loader: BootLoader | None,
    memory: Memory | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """As many hugepages are reserved as were asked for.

    The kernel gives fewer when memory is fragmented and reports no error; programs that count on them then
    fall back to small pages, or fail to start.
    """
    due = _comes_at_boot(running, loader)
    wanted_kib = sum(pool.pages * pool.size_kib for pool in want.hugepages)
    if memory and wanted_kib >= memory.total:
        yield _too_many(wanted_kib, memory, want.hugepages[0].origin)
        return
    for pool in want.hugepages:
        if why_not := want.why_not("hugepages"):
            yield skip(_place(pool), why_not)
        else:
            yield _waiting(pool, pools) if due and pool.size_kib == GIB_KIB else _pool(pool, pools)
    if not want.hugepages:
        yield _asked(pools, files, short)


def _too_many(wanted_kib: int, memory: Memory, origin: str) -> Judgement:
    """Refuse pages that leave nothing to run in; reserved at boot, they would keep the host from coming up."""
    return Judgement(
        "host",
        Verdict.FAIL,
        f"{memory.total / GIB_KIB:.0f} GiB of memory",
        f"more than the {wanted_kib / GIB_KIB:.0f} GiB of huge pages",
        origin=origin,
        remedy=by_hand("Declare fewer huge pages than the host has memory (qwenhost_hugepages)."),
    )


def _comes_at_boot(running: KernelArgs | None, loader: BootLoader | None) -> bool:
    """Tell whether GRUB has the kernel reserve pages of 1 GiB at the next boot, and not yet in this one."""
    coming = loader.next_boot if loader else None
    return bool(running and coming) and LARGE in (coming or ()) and LARGE not in (running.args if running else ())


def _waiting(pool: HugepagePool, pools: Hugepages) -> Judgement:
    """Pages of 1 GiB that a fragmented memory did not give are no failure before the reboot that reserves them."""
    now = _pool(pool, pools)
    short = now.verdict is Verdict.FAIL and now.remedy is None
    return replace(now, verdict=Verdict.WARN, remedy=AT_BOOT) if short else now


def _place(pool: HugepagePool) -> str:
    return f"{'host' if pool.node == WHOLE_HOST else f'node {pool.node}'} {pool.size_kib} KiB"


def _pool(pool: HugepagePool, pools: Hugepages) -> Judgement:
    """Compare one pool; a size or node that the kernel does not list among its own is not there."""
    got = pools.pages.get((pool.node, pool.size_kib))
    listed = pool.node != WHOLE_HOST and any(node != WHOLE_HOST for node, _ in pools.pages)
    absent = got is None and listed
    return judged(
        _place(pool),
        False if absent else None if got is None else got == pool.pages,
        observed="no such pool" if absent else "not seen" if got is None else f"{got} pages",
        expected=f"{pool.pages} pages",
        origin=pool.origin,
        remedy=NO_SUCH_POOL if absent else None,
    )


def _asked(pools: Hugepages, files: SysctlFiles | None, short: HugepageShortfall | None) -> Judgement:
    """Nothing is declared: what somebody asked for on the host has to be there all the same."""
    setting = files.values.get(PAGES_ASKED, "") if files else ""
    asked = short.asked if short else int(setting) if setting.isdigit() else None
    got = pools.pages.get((WHOLE_HOST, DEFAULT_PAGE_KIB))
    if asked is None or got is None:
        return Judgement("host", Verdict.SKIP, observed="no hugepages are asked for")
    return judged(
        "host",
        got >= asked,
        observed=f"{got} of {asked} pages",
        expected=f"{asked} pages",
        otherwise=Verdict.WARN,
        evidence=short.line if short else f"{PAGES_ASKED} = {setting}",
        remedy=by_hand("Free and compact memory and reserve them again, or reserve them at boot."),
    )


@check(
    "host.transparent-hugepages",
    remedy=TUNED,
    applies=_declares("transparent_hugepages"),
    skipped=NO_PROFILE,
)
def transparent_hugepages(now: TransparentHugepages, want: Expectations) -> Iterator[Judgement]:
    """Transparent hugepages are in the declared mode.

    `always` lets the kernel compact memory in the middle of an allocation, which stalls pinned buffers.
    """
    setting, why_not = want.transparent_hugepages, want.why_not("transparent-hugepages")
    if why_not:
        yield skip("host", why_not)
    elif setting:
        yield equal("host", now.mode, setting.value, origin=setting.origin)


@check("host.tcp-buffers", remedy=TUNED, applies=_declares("sysctl"), skipped=NO_PROFILE)
def tcp_buffers(now: Sysctl, want: Expectations) -> Iterator[Judgement]:
    """Sockets may use buffers as large as a fast, long path needs.

    With the kernel's default of a few MiB, one connection downloads a model at a fraction of the line rate.
    """
    yield from settings(now, (setting for setting in want.sysctl if setting.key in TCP_BUFFERS), want)


@check("host.sysctl", remedy=TUNED, applies=_declares("sysctl"), skipped=NO_PROFILE)
def sysctl(now: Sysctl, want: Expectations) -> Iterator[Judgement]:
    """The other kernel settings are as the profile and the inventory ask, now and not only in a file."""
    elsewhere = (*TCP_BUFFERS, *BACKLOGS, NUMA_BALANCING)
    yield from settings(now, (setting for setting in want.sysctl if setting.key not in elsewhere), want)


@check("host.net-backlog", remedy=TUNED)
def net_backlog(now: Sysctl | None, advice: SysctlAdvice | None, want: Expectations) -> Iterator[Judgement]:
    """Queues of incoming packets and connections are long enough for bursts.

    When many workers connect at once, a short queue refuses some of them, and the job fails to start.
    """
    wanted = [setting for setting in want.sysctl if setting.key in BACKLOGS]
    seen = now or Sysctl({})
    yield from settings(seen, wanted, want)
    declared = {setting.key for setting in wanted}
    for key in advice.keys if advice else ():
        if key not in declared:
            yield Judgement(
                key, Verdict.WARN, seen.values.get(key, "not seen"), "more", advice.line if advice else ""
            )
    if not wanted and not advice:
        yield Judgement("host", Verdict.SKIP, observed=NO_PROFILE)


def settings(now: Sysctl, wanted: Iterable[Setting], want: Expectations) -> Iterator[Judgement]:
    """Judge kernel settings one by one; those that cannot be set on this host are skipped with the reason."""
    for setting in wanted:
        if why_not := want.why_not("sysctl", setting.key):
            yield skip(setting.key, why_not)
            continue
        value = now.values.get(setting.key)
        yield judged(
            setting.key,
            None if value is None else holds(setting, value),
            observed="not seen" if value is None else " ".join(value.split()),
            expected=("at least " if setting.raise_only else "") + setting.value,
            origin=setting.origin,
        )


def holds(setting: Setting, value: str) -> bool:
    """Compare token by token; where only raising is wanted, larger numbers hold."""
    wanted, found = setting.value.split(), value.split()
    if setting.raise_only and found == ["unlimited"]:
        return True
    if not (setting.raise_only and all(token.isdigit() for token in (*wanted, *found))):
        return wanted == found
    return len(wanted) == len(found) and all(
        int(is_) >= int(least) for is_, least in zip(found, wanted, strict=True)
    )
