"""What became of a host's open findings since it was examined before."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Past:
    """One alarm on a subject. Times are ISO 8601 UTC; `runs` counts the runs that saw it, this one included.

    `step`: the escalated act that is advised now, such as "reboot"; empty: what the check itself advises.
    """

    check: str
    subject: str
    verdict: str
    first_seen_at: str
    runs: int = 1
    step: str = ""


@dataclass(frozen=True)
class Since:
    """Alarms (fail and warn) of this run against those of the run before.

    `unseen`: open before, and now not judged, so that nobody knows; such an alarm is not gone.
    """

    examined_at: str
    """When the run before was."""
    new: tuple[Past, ...] = ()
    gone: tuple[Past, ...] = ()
    unchanged: tuple[Past, ...] = ()
    unseen: tuple[Past, ...] = ()
