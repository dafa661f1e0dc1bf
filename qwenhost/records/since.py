"""What became of a host's alarms since it was examined before."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Past:
    """An alarm (fail or warn) on a subject, with its history. Times are ISO 8601 UTC.

    `cause`: the check that it is a consequence of, as far as this run told; such an alarm is remembered, not told.
    `runs` counts the runs that saw it, `was` is the verdict of the run before where that differs.
    `step` is the act that is advised now, such as "reboot", with the run and boot since which it is; empty
    for an alarm whose advice does not escalate.
    """

    check: str
    subject: str
    verdict: str
    first_seen_at: str
    last_seen_at: str
    runs: int = 1
    was: str = ""
    cause: str = ""
    step: str = ""
    step_at: str = ""
    step_boot: str = ""
    step_runs: int = 1
    escalated: bool = False


@dataclass(frozen=True)
class Since:
    """Alarms of this run against those of the run before, which was at `examined_at`.

    `unseen`: open before and not judged now, so that nobody knows. Such an alarm is not gone.
    """

    examined_at: str
    new: tuple[Past, ...] = ()
    gone: tuple[Past, ...] = ()
    unchanged: tuple[Past, ...] = ()
    unseen: tuple[Past, ...] = ()


@dataclass(frozen=True)
class Remembered:
    """What is kept of one host between runs."""

    examined_at: str
    alarms: tuple[Past, ...] = ()
