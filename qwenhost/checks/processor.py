"""Processors and the clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from qwenhost.checks.declare import Judgement, check, judged, note, skip
from qwenhost.checks.host import NUMA_BALANCING, TUNED, settings
from qwenhost.facts.clock import Clock, Container
from qwenhost.facts.cpus import Cpus, Governors
from qwenhost.facts.numa import NumaNodes
from qwenhost.facts.sysctl import Sysctl
from qwenhost.records.desired import Expectations, Setting
from qwenhost.records.finding import Verdict, by_hand

ACTIVE = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
"""Drivers with which the processor chooses its frequency itself; there `powersave` does not hold it low."""

FAST = ("performance", "schedutil", "ondemand")


@check("host.governor", remedy=by_hand("Run cpupower frequency-set -g performance, and make it stay with tuned."))
def governor(now: Governors, want: Expectations) -> Iterator[Judgement]:
    """The processor's frequency is not held low.

    vLLM schedules on the CPU; at a low frequency each token waits longer.
    """
    if not now.cpus:
        yield skip("host", "the kernel sets no frequency here, as in a virtual machine")
        return
    if want.governor:
        yield _declared_governor(now, want.governor, want.why_not("governor"))
        return
    slow = {name: count for name, count in now.cpus.items() if name not in FAST}
    observed = _governors(now)
    if slow and now.driver in ACTIVE:
        yield note("host", f"{observed} with {now.driver}, which raises the frequency itself")
    else:
        yield judged("host", not slow, observed=observed, expected="performance", otherwise=Verdict.WARN)


def _governors(now: Governors) -> str:
    return ", ".join(f"{name} on {count} CPUs" for name, count in sorted(now.cpus.items()))


def _declared_governor(now: Governors, wanted: Setting, why_not: str) -> Judgement:
    if why_not:
        return skip("host", why_not)
    return judged(
        "host",
        set(now.cpus) == {wanted.value},
        observed=_governors(now),
        expected=wanted.value,
        origin=wanted.origin,
        remedy=TUNED,
    )


@check("host.cpu", remedy=by_hand("Write 1 to /sys/devices/system/cpu/cpuN/online, or see who took them offline."))
def cpu(now: Cpus) -> Iterator[Judgement]:
    """All processors that are there are in use.

    One that is offline is missing for the workers, and the memory beside it may be too.
    """
    if now.online == now.present:
        yield Judgement("host", Verdict.PASS, f"CPUs {now.online}")
    else:
        yield note("host", f"CPUs {now.online} of {now.present} are online")


@check("host.numa-balancing", remedy=by_hand("Set kernel.numa_balancing to 0."))
def numa_balancing(now: Sysctl, nodes: NumaNodes | None, want: Expectations) -> Iterator[Judgement]:
    """The kernel does not move memory between NUMA nodes by itself.

    Its page faults cost time, and bring nothing to processes that are pinned.
    """
    value = now.values.get(NUMA_BALANCING)
    declared = [setting for setting in want.sysctl if setting.key == NUMA_BALANCING]
    if declared:
        yield from (replace(judgement, remedy=TUNED) for judgement in settings(now, declared, want))
    elif value is None:
        return
    elif nodes is not None and len(nodes.cpus) == 1:
        yield skip("host", "one NUMA node")
    elif value.strip() == "0":
        yield Judgement("host", Verdict.PASS, "off")
    else:
        yield note("host", f"on ({value.strip()})", expected="off where processes are pinned")


@check("host.clock-sync", remedy=by_hand("Enable chronyd or systemd-timesyncd, and let it reach its servers."))
def clock_sync(now: Clock, container: Container | None) -> Iterator[Judgement]:
    """The clock is in step with others.

    Certificates and tokens fail when it is wrong, and logs of several hosts cannot be put side by side.
    """
    if container is not None and container.manager:
        yield skip("host", f"{container.manager}: the clock is its machine's")
    elif now.synchronised is None:
        yield note("host", "nothing on this host tells")
    else:
        yield judged(
            "host",
            now.synchronised,
            observed="in step" if now.synchronised else "not in step",
            expected="in step",
            otherwise=Verdict.WARN,
            evidence=now.line,
        )
