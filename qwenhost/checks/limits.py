"""Limits of logins and of services: how much memory they may pin, how many files they may open."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged
from qwenhost.checks.host import NO_PROFILE, TUNED, holds
from qwenhost.facts.limits import (
    ConfiguredLimits,
    FileTable,
    LaterLimits,
    LockedMemoryRefused,
    OpenFilesExhausted,
    ServiceLimits,
    ShellLimits,
)
from qwenhost.records.desired import Expectations, Setting
from qwenhost.records.finding import Remedy, Verdict, by_hand, by_role

SERVICE = by_role("vllm_service", "Run qwenhost provision: the role vllm_service writes the unit's limits.")


@check("host.memlock", remedy=TUNED)
def memlock(
    ours: ConfiguredLimits | None,
    units: ServiceLimits | None,
    shell: ShellLimits | None,
    later: LaterLimits | None,
    refused: LockedMemoryRefused | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """Programs may pin as much memory as they need.

    NCCL and CUDA pin host buffers; with the login default of a few MiB they fail or go slow ways.
    """
    if refused is not None:
        limit = refused.limit or (shell.values.get("memlock") if shell else None) or "not seen"
        yield Judgement(
            "host",
            Verdict.WARN,
            observed=f"memory could not be locked, limit {limit}",
            expected="unlimited",
            evidence=refused.line,
            remedy=by_hand(
                "Raise the limit of whatever starts the program: LimitMEMLOCK=infinity in its unit, --ulimit"
                " memlock=-1 for a container, memlock unlimited in limits.d for logins and batch jobs."
            ),
        )
    if refused is None or want.limits:
        yield from _limit("memlock", want, ours, units, shell)
        yield from _overridden("memlock", want, later)


@check("host.nofile", remedy=TUNED)
def nofile(
    ours: ConfiguredLimits | None,
    units: ServiceLimits | None,
    shell: ShellLimits | None,
    out: OpenFilesExhausted | None,
    later: LaterLimits | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """Programs may open as many files as clients and workers need.

    Each connection is an open file; vLLM with eight workers uses up 1024 before it is ready.
    """
    if out is not None:
        limit = shell.values.get("nofile") if shell else None
        yield Judgement(
            "host",
            Verdict.WARN,
            observed=f"no file descriptor left, limit {limit or 'not seen'}",
            expected="enough for every connection and worker",
            evidence=out.line,
            remedy=by_hand("Raise the limit of whatever starts the program: LimitNOFILE=1048576 in its unit."),
        )
    if out is None or want.limits:
        yield from _limit("nofile", want, ours, units, shell)
        yield from _overridden("nofile", want, later)


@check("host.file-max", remedy=by_hand("Raise fs.file-max, and find the program that leaks files."))
def file_max(log: FileTable) -> Iterator[Judgement]:
    """The kernel's table of open files has never been full.

    When it is, nothing on the host can open a file or accept a connection, whatever its own limit is.
    """
    full = log.full_at is not None
    yield judged(
        "host",
        not full,
        observed=f"full at {log.full_at} files" if full else "never full",
        expected="never full",
        evidence=log.line,
    )


def _overridden(item: str, want: Expectations, later: LaterLimits | None) -> Iterator[Judgement]:
    """Name what is read after our file and gives everybody, or root, another limit."""
    setting = next((setting for setting in want.limits if setting.key == item), None)
    for value, place in later.values.get(item, ()) if later and setting else ():
        if setting and not holds(setting, value):
            remedy = by_hand(f"Take the line out of {place.rpartition(':')[0]}: it is read after ours.")
            yield Judgement(place, Verdict.WARN, value, setting.value, origin=setting.origin, remedy=remedy)


def _limit(
    item: str,
    want: Expectations,
    ours: ConfiguredLimits | None,
    units: ServiceLimits | None,
    shell: ShellLimits | None,
) -> Iterator[Judgement]:
    setting = next((setting for setting in want.limits if setting.key == item), None)
    if setting is None:
        yield Judgement("host", Verdict.SKIP, observed=NO_PROFILE)
        return
    if ours is not None:
        yield _value("limits.d", setting, ours.values.get(item, "not configured"), TUNED)
    elif shell is None:
        yield Judgement("limits.d", Verdict.UNKNOWN, "not seen", setting.value, origin=setting.origin)
    if shell is not None:
        yield _value("shell", setting, shell.values.get(item), TUNED)
    for name, values in sorted(units.values.items()) if units else ():
        yield _value(f"vllm@{name}", setting, values.get(item), SERVICE)


def _value(subject: str, setting: Setting, value: str | None, remedy: Remedy) -> Judgement:
    return judged(
        subject,
        None if value is None else holds(setting, value),
        observed=value or "not seen",
        expected=setting.value,
        origin=setting.origin,
        remedy=remedy,
    )
