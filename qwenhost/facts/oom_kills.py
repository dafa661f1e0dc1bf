"""Processes that the kernel killed for want of memory, of the host or of a control group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from qwenhost.facts.kernel_lines import KERNEL_LOG, Message, kernel_log
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture

_WORDS = ("kill process ", "killed process ", "oom-kill:constraint=", "killed as a result of limit of ")

_KILLED = re.compile(
    r"(?P<why>(?:Memory cgroup )?[Oo]ut of memory.*: )?Kill(?:ed)? process (?P<pid>\d+),? \((?P<task>.+?)\)[ ,]"
    r"(?:.*anon-rss:(?P<anon>\d+)kB)?"
)
"""Up to Linux 4.x two lines, the second without the reason; from 5.0 on one."""

_CONSTRAINT = re.compile(r"constraint=CONSTRAINT_(?P<kind>\w+),.*?task_memcg=(?P<group>[^,]*),.*pid=(?P<pid>\d+)")
_LIMITED = re.compile(r"Task in (?P<group>\S+) killed as a result of limit of ")
"""Up to Linux 4.18, before the line of the kill."""


@dataclass(frozen=True)
class OomKill:
    """One killed process. `limited`: a control group's limit was the reason, the host had memory left."""

    task: str
    pid: int
    limited: bool
    group: str = ""
    anonymous_mib: int | None = None
    text: str = ""
    at: str = ""


@dataclass(frozen=True)
class OomKills:
    """All kills since the last boot that the logs show, in order."""

    kills: tuple[OomKill, ...]
    cut: bool = False

    def merge(self, other: OomKills) -> OomKills:
        """Add the processes that only the other log has."""
        known = {(kill.pid, kill.task) for kill in self.kills}
        more = (kill for kill in other.kills if (kill.pid, kill.task) not in known)
        return OomKills((*self.kills, *more), self.cut and other.cut)


@parses(KERNEL_LOG)
def oom_kills(capture: Capture) -> OomKills:
    """Parse a kernel log; raises Unparsable for other logs."""
    log = kernel_log(capture)
    return OomKills(_kills(message for message in log.messages(_WORDS) if not message.earlier_boot), log.cut)


def _kills(messages: Iterable[Message]) -> tuple[OomKill, ...]:
    kills: dict[tuple[int, str], OomKill] = {}
    groups: dict[int, tuple[bool, str]] = {}
    limited_group = ""
    for message in messages:
        if found := _CONSTRAINT.search(message.text):
            groups[int(found["pid"])] = found["kind"] == "MEMCG", found["group"]
        elif found := _LIMITED.search(message.text):
            limited_group = found["group"]
        elif found := _KILLED.search(message.text):
            key = int(found["pid"]), found["task"]
            limited, group = groups.get(key[0], (bool(limited_group), limited_group))
            if key in kills:
                kills[key] = replace(kills[key], anonymous_mib=_mib(found["anon"]))
            elif found["why"]:
                limited = limited or "cgroup" in found["why"]
                kills[key] = OomKill(
                    found["task"], key[0], limited, group, _mib(found["anon"]), message.text.strip(), message.at
                )
                limited_group = ""
    return tuple(kills.values())


def _mib(kib: str | None) -> int | None:
    return int(kib) // 1024 if kib else None
