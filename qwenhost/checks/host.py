"""Host settings: what the profile and the inventory ask for, against what the kernel has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from qwenhost.checks.declare import Judgement, check, equal, judged
from qwenhost.facts.hugepages import WHOLE_HOST, Hugepages
from qwenhost.facts.limits import ConfiguredLimits, ShellLimits
from qwenhost.facts.sysctl import Sysctl
from qwenhost.facts.transparent_hugepages import TransparentHugepages
from qwenhost.records.desired import Expectations, HugepagePool, Setting
from qwenhost.records.finding import Verdict, by_hand, by_role

NO_PROFILE = "no profile is declared (qwenhost_profile, or --profile)"

TCP_BUFFERS = ("net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")

PAGES_ASKED = "vm.nr_hugepages"
DEFAULT_PAGE_KIB = 2048

TUNED = by_role("host_tuning")


def _declares(attribute: str) -> Callable[[Expectations], bool]:
    return lambda want: bool(getattr(want, attribute))


@check(
    "host.hugepages",
    remedy=by_role("host_tuning", "Run qwenhost provision: the role host_tuning reserves them."),
)
def hugepages(pools: Hugepages, settings: Sysctl | None, want: Expectations) -> Iterator[Judgement]:
    """As many hugepages are reserved as were asked for.

    The kernel gives fewer when memory is fragmented and reports no error; programs that count on them then
    fall back to small pages, or fail to start.
    """
    for pool in want.hugepages:
        yield _pool(pool, pools.pages.get((pool.node, pool.size_kib)))
    if not want.hugepages:
        yield _asked(pools, settings)


def _pool(pool: HugepagePool, got: int | None) -> Judgement:
    where = "host" if pool.node == WHOLE_HOST else f"node {pool.node}"
    return judged(
        f"{where} {pool.size_kib} KiB",
        None if got is None else got >= pool.pages,
        observed="not seen" if got is None else f"{got} pages",
        expected=f"{pool.pages} pages",
        origin=pool.origin,
    )


def _asked(pools: Hugepages, settings: Sysctl | None) -> Judgement:
    """Nothing is declared: what a setting on the host asks for has to be there all the same."""
    asked = settings.values.get(PAGES_ASKED) if settings else None
    got = pools.pages.get((WHOLE_HOST, DEFAULT_PAGE_KIB))
    if asked is None or got is None or not asked.isdigit():
        return Judgement("host", Verdict.SKIP, observed="no hugepages are asked for")
    return judged(
        "host",
        got >= int(asked),
        observed=f"{got} pages",
        expected=f"{asked} pages",
        otherwise=Verdict.WARN,
        evidence=f"{PAGES_ASKED} = {asked}",
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
    if want.transparent_hugepages:
        setting = want.transparent_hugepages
        yield equal("host", now.mode, setting.value, origin=setting.origin)


@check("host.tcp-buffers", remedy=TUNED, applies=_declares("sysctl"), skipped=NO_PROFILE)
def tcp_buffers(now: Sysctl, want: Expectations) -> Iterator[Judgement]:
    """Sockets may use buffers as large as a fast, long path needs.

    With the kernel's default of a few MiB, one connection downloads a model at a fraction of the line rate.
    """
    yield from _settings(now, (setting for setting in want.sysctl if setting.key in TCP_BUFFERS))


@check("host.sysctl", remedy=TUNED, applies=_declares("sysctl"), skipped=NO_PROFILE)
def sysctl(now: Sysctl, want: Expectations) -> Iterator[Judgement]:
    """The other kernel settings are as the profile and the inventory ask, now and not only in a file."""
    yield from _settings(now, (setting for setting in want.sysctl if setting.key not in TCP_BUFFERS))


def _settings(now: Sysctl, wanted: Iterable[Setting]) -> Iterator[Judgement]:
    for setting in wanted:
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
    if not (setting.raise_only and all(token.isdigit() for token in (*wanted, *found))):
        return wanted == found
    return len(wanted) == len(found) and all(
        int(is_) >= int(least) for is_, least in zip(found, wanted, strict=True)
    )


@check("host.memlock", remedy=TUNED, applies=_declares("limits"), skipped=NO_PROFILE)
def memlock(now: ConfiguredLimits, want: Expectations) -> Iterator[Judgement]:
    """Programs may pin as much memory as they need.

    NCCL and CUDA pin host buffers; with the login default of a few MiB they fail or go slow ways.
    """
    yield from _limit("memlock", now, want)


@check("host.nofile")
def nofile(now: ConfiguredLimits | None, seen: ShellLimits | None, want: Expectations) -> Iterator[Judgement]:
    """Programs may open as many files as clients and workers need.

    Each connection is an open file; vLLM with eight workers uses up 1024 before it is ready.
    """
    if now is not None and want.limits:
        yield from _limit("nofile", now, want)
    elif not want.limits:
        yield Judgement("host", Verdict.SKIP, observed=NO_PROFILE)


def _limit(item: str, now: ConfiguredLimits, want: Expectations) -> Iterator[Judgement]:
    for setting in want.limits:
        if setting.key == item:
            value = now.values.get(item, "not configured")
            yield judged(
                "limits.d",
                holds(setting, value),
                observed=value,
                expected=setting.value,
                origin=setting.origin,
                remedy=TUNED,
            )
