"""Kernel arguments: those that contradict one another, and those that are wanted, now and at the next boot."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from qwenhost.checks.declare import Judgement, check, skip
from qwenhost.checks.host import TUNED
from qwenhost.expectations.kernel_arguments import GIB_KIB, PAGES
from qwenhost.facts.boot import Boot
from qwenhost.facts.boot_loader import BootLoader
from qwenhost.facts.cpus import KernelArgs
from qwenhost.facts.hugepages import Hugepages
from qwenhost.records.desired import Expectations, Setting
from qwenhost.records.finding import Remedy, Verdict, by_hand, by_reboot

ONCE = ("iommu", "intel_iommu", "amd_iommu", "default_hugepagesz", "transparent_hugepage", "numa_balancing")
"""Arguments of which the kernel keeps the last value."""

CONTRADICTION = by_hand("Take the older one out of the boot loader's settings.")

REBOOT = by_reboot("Reboot in the next window: GRUB has them, and the kernel takes them when it starts.")

NOT_TAKEN = by_hand(
    "Another reboot changes nothing: see which entry GRUB starts (GRUB_DEFAULT in /etc/default/grub,"
    " `grub-editenv list`), and whether a later stage of the boot replaces the arguments."
)


def _dropped(where: str) -> Remedy:
    told = 'Let {} keep what stood there (GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT ..."), '
    return by_hand(told.format(where) + "then run update-grub.")


@check("host.kernel-args", remedy=TUNED)
def kernel_args(
    now: KernelArgs,
    loader: BootLoader | None,
    boot: Boot | None,
    pools: Hugepages | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """The kernel has the arguments that are wanted, has them at the next boot, too, and none contradicts another.

    What the boot loader does not have is gone after a reboot, and what it has takes effect only then. Of an
    argument that is given twice the last one counts, so a setting that seems to be there is not in force.
    """
    contradictions = list(_contradictions(now))
    wanted = [setting for setting in want.kernel_args if not want.why_not("kernel-args", setting.key)]
    yield from contradictions
    for setting in want.kernel_args:
        if setting in wanted:
            yield _argument(setting, now, loader, boot, _reserved(setting, pools, want))
        else:
            yield skip(setting.value, want.why_not("kernel-args", setting.key))
    left = _left_over(loader, wanted)
    if left:
        yield Judgement(left, Verdict.FAIL, "written by an earlier run", "no longer declared")
    if not (contradictions or want.kernel_args or left):
        yield Judgement("host", Verdict.PASS, f"{len(now.args)} arguments, none contradicts another")


def _contradictions(now: KernelArgs) -> Iterator[Judgement]:
    for name in ONCE:
        values = [arg for arg in now.args if re.fullmatch(rf"{name}=\S+", arg)]
        if len(set(values)) > 1 and not {f"{name}=on", f"{name}=pt"} >= set(values):
            observed = f"{values[-1]} is in force"
            yield Judgement(name, Verdict.WARN, observed, "one value", " ".join(values), remedy=CONTRADICTION)


def _argument(
    setting: Setting, now: KernelArgs, loader: BootLoader | None, boot: Boot | None, reserved: bool
) -> Judgement:
    """Judge one argument by where it stands: in the running kernel, in GRUB's menu, in our file."""
    running = _within(setting, now.args)
    if loader is None or loader.next_boot is None:
        observed = ("in force" if running else "not in force") + ", the next boot was not seen"
        return _told(setting, Verdict.UNKNOWN, observed)
    coming, ours = _within(setting, loader.next_boot), _within(setting, loader.own)
    if coming and (running or reserved):
        return _told(setting, Verdict.PASS, "in force" if running else "the pages are there already")
    if coming and ours and boot and loader.written_in not in ("", boot.id):
        return _told(setting, Verdict.WARN, "in GRUB's menu, and a boot later still not in force", NOT_TAKEN)
    if coming:
        return _told(setting, Verdict.WARN, "waits for a reboot", REBOOT)
    if ours and loader.overriding:
        return _told(setting, Verdict.WARN, f"dropped by {loader.overriding}", _dropped(loader.overriding))
    return _told(setting, Verdict.FAIL, "in force until the next boot" if running else "not configured")


def _told(setting: Setting, verdict: Verdict, observed: str, remedy: Remedy | None = None) -> Judgement:
    expected = "in force, now and after the next boot"
    return Judgement(setting.value, verdict, observed, expected, origin=setting.origin, remedy=remedy)


def _within(setting: Setting, args: Sequence[str]) -> bool:
    """Tell whether the words of a setting stand side by side among the arguments."""
    words = tuple(setting.value.split())
    return any(tuple(args[at : at + len(words)]) == words for at in range(len(args) - len(words) + 1))


def _reserved(setting: Setting, pools: Hugepages | None, want: Expectations) -> bool:
    """Tell whether pages that an argument reserves at boot are there without it."""
    large = [pool for pool in want.hugepages if pool.size_kib == GIB_KIB]
    return setting.key == PAGES and all(
        pools is not None and pools.pages.get((pool.node, pool.size_kib)) == pool.pages for pool in large
    )


def _left_over(loader: BootLoader | None, wanted: Collection[Setting]) -> str:
    """Return what our file holds and nobody wants any more."""
    words = {word for setting in wanted for word in setting.value.split()}
    return " ".join(word for word in loader.own if word not in words) if loader else ""
