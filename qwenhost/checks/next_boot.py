"""What is in force now and would be gone, or another value, after the next boot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from qwenhost.checks.declare import Judgement, check, equal, skip
from qwenhost.checks.host import TUNED, holds
from qwenhost.facts.boot import Boot
from qwenhost.facts.module_options import ModuleOptions
from qwenhost.facts.sysctl_order import OWN, Assignment, SysctlOrder
from qwenhost.facts.tuned_at_boot import TunedAtBoot
from qwenhost.records.desired import Expectations, Setting
from qwenhost.records.finding import Verdict, by_hand, by_reboot

FEW = 3
"""Names in one line; the rest are counted."""

RELOAD = by_reboot("Reboot in the next window, or stop what uses the GPUs and load the nvidia module anew.")

NOT_TAKEN = by_hand(
    "Another reboot changes nothing: look for the option in other files (modprobe -c | grep nvidia),"
    " and rebuild an initramfs that holds the module (update-initramfs -u)."
)


@check(
    "host.sysctl-files",
    remedy=TUNED,
    applies=lambda want: bool(want.sysctl),
    skipped="no kernel setting is declared",
    consequence_of=("host.sysctl", "host.tcp-buffers", "host.net-backlog"),
)
def sysctl_files(order: SysctlOrder, want: Expectations) -> Iterator[Judgement]:
    """Kernel settings keep their value at the next boot.

    systemd sets them file by file, by name; a line in a later file wins in silence, and a host that is
    right today comes up wrong after a reboot weeks later.
    """
    wanted = [setting for setting in want.sysctl if not want.why_not("sysctl", setting.key)]
    missing = [setting.key for setting in wanted if not _written(setting, order.lines.get(setting.key, ()))]
    overridden = [setting for setting in wanted if setting.key not in missing and _loser(setting, order)]
    for setting in overridden:
        yield _overridden(setting, order.lines[setting.key][-1])
    if missing:
        yield Judgement("host", Verdict.FAIL, f"not for the next boot: {_few(missing)}", f"lines in {OWN}")
    elif not overridden:
        yield Judgement("host", Verdict.PASS, f"{len(wanted)} settings")


def _few(names: list[str]) -> str:
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


def _written(setting: Setting, lines: tuple[Assignment, ...]) -> bool:
    """Tell whether our file has it right, or whatever stays in the end is right without it."""
    ours = [line for line in lines if line.ours]
    return holds(setting, ours[-1].value) if ours else bool(lines) and holds(setting, lines[-1].value)


def _loser(setting: Setting, order: SysctlOrder) -> bool:
    return not holds(setting, order.lines[setting.key][-1].value)


def _overridden(setting: Setting, winner: Assignment) -> Judgement:
    file = winner.place.rpartition(":")[0]
    return Judgement(
        setting.key,
        Verdict.WARN,
        observed=f"{winner.place} makes it {winner.value} at the next boot",
        expected=setting.value,
        origin=setting.origin,
        remedy=by_hand(f"Take the line out of {file}, or declare its value in qwenhost_sysctl."),
    )


@check("host.next-boot", remedy=TUNED)
def next_boot(now: TunedAtBoot, want: Expectations) -> Iterator[Judgement]:
    """Pages, governor, swap and shared memory are set at each boot as they are now.

    The kernel starts with its own defaults. What is set by hand, or whose unit was switched off, is gone
    with the next boot.
    """
    judgements = [*_parts(now, want), *_unit(now, want)]
    yield from judgements or [skip("host", "nothing is declared that a unit of ours sets")]


def _parts(now: TunedAtBoot, want: Expectations) -> Iterator[Judgement]:
    """Judge what each of our files says; what is out of reach is not written."""
    pages = want.transparent_hugepages if not want.why_not("transparent-hugepages") else None
    yield from _part("transparent-hugepages", now.transparent_hugepages, pages)
    yield from _part("governor", now.governor, _wanted(want, "governor", want.governor))
    yield from _part("swap", "off" if now.swap_off else "", _wanted(want, "swap", want.swap))
    yield from _part("shm", str(now.shm_bytes or ""), _wanted(want, "shm", want.shm))
    pools = (
        {} if want.why_not("hugepages") else {(pool.node, pool.size_kib): pool.pages for pool in want.hugepages}
    )
    if pools or now.pools:
        pages_judged = equal("hugepages", _pages(now.pools), _pages(pools))
        yield replace(pages_judged, consequence_of="host.hugepages")


def _wanted(want: Expectations, kind: str, setting: Setting | None) -> Setting | None:
    return None if want.why_not(kind) else setting


def _part(subject: str, written: str, setting: Setting | None) -> Iterator[Judgement]:
    """Judge one value; one that nobody declares any more has to go. The live one has a check of that name."""
    if setting or written:
        expected = setting.value if setting else "nothing"
        judgement = equal(subject, written or "nothing", expected, origin=setting.origin if setting else "")
        yield replace(judgement, consequence_of=f"host.{subject}")


def _pages(pools: Mapping[tuple[int, int], int]) -> str:
    told = (f"node {node}: {pages} x {size} KiB" for (node, size), pages in sorted(pools.items()))
    return ", ".join(told) or "none"


def _unit(now: TunedAtBoot, want: Expectations) -> Iterator[Judgement]:
    if now.governor or now.swap_off or now.shm_bytes or now.pools:
        yield equal("qwenhost-tuning.service", "enabled" if now.runs else "not enabled", "enabled")


@check("host.nvidia-options", remedy=TUNED)
def nvidia_options(now: ModuleOptions, boot: Boot | None, want: Expectations) -> Iterator[Judgement]:
    """The nvidia kernel module has the options that are declared for it.

    They are read when the module is loaded: what stands in a file alone is not in force.
    """
    for setting in want.nvidia_options:
        yield _option(setting, now, boot)
    left = sorted(set(now.own) - {setting.key for setting in want.nvidia_options})
    if left:
        yield Judgement(" ".join(left), Verdict.FAIL, "written by an earlier run", "no longer declared")
    elif not want.nvidia_options:
        yield skip("host", "no option is declared")


def _option(setting: Setting, now: ModuleOptions, boot: Boot | None) -> Judgement:
    loaded = (now.loaded or {}).get(setting.key)
    expected = setting.value
    if now.own.get(setting.key) != setting.value:
        observed = f"{now.own.get(setting.key, 'nothing')} in our file"
        return Judgement(setting.key, Verdict.FAIL, observed, expected, origin=setting.origin)
    if now.loaded is None or loaded is None:
        return Judgement(setting.key, Verdict.NOTE, "the loaded module does not tell", expected)
    if loaded == setting.value:
        return Judgement(setting.key, Verdict.PASS, loaded, expected)
    later = boot is not None and now.written_in not in ("", boot.id)
    remedy = NOT_TAKEN if later else RELOAD
    observed = f"{loaded} in the loaded module" + (", a boot later" if later else "")
    return Judgement(setting.key, Verdict.WARN, observed, expected, origin=setting.origin, remedy=remedy)
