"""A log cut into starts: lines without the prefixes of whatever collected them, one list per start of a
service.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from qwenhost.facts.reading import plain

_JOURNAL = re.compile(
    r"(?:(?:\w{3} )?\d{4}-\d\d-\d\d[ T][\d:]{8}\S*(?: [A-Z]\w+)?|[A-Z][a-z]{2} +\d+ [\d:]{8}) \S+ "
    r"(?P<unit>[\w@.\\:-]+)\[\d+\]: (?P<text>.*)"
)
"""`journalctl` with and without --output=with-unit, short-iso, syslog files."""

CONTAINER = "container "
"""What the name of a service begins with that is no unit of systemd."""

_COMPOSE = re.compile(r"(?P<unit>[A-Za-z][\w.-]*) +\| (?P<text>.*)")

_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?(?: \w+ F)? *(?:\| )?")
"""`docker logs --timestamps`, `kubectl logs --timestamps`, and the containerd files below them."""

_PROCESS = re.compile(r"^\((?:APIServer|ApiServer|Engine|VllmWorker|Worker|RayWorker|DPCoordinator|pid=)[^)]*\) ?")
"""(EngineCore_DP0 pid=12), (VllmWorker rank=1 pid=12), (VllmWorker-0 pid=12), (Worker_TP1 pid=12)."""

_LEVEL = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:]{8} (?:\[[^\]]*:\d+\]|\S+\.py:\d+\]) ?"
)
"""V1 has brackets around file and line, V0 only the closing one."""

MILD = ("DEBUG", "INFO", "WARNING")

_RANK = re.compile(r"^\[rank\d+\]: ?")

_BANNER = re.compile(r"vLLM API server version|█ {1,4}version \d")

_STARTING = re.compile(r"systemd: Starting (?:vllm@(?P<unit>[^ @]+?)\.service|vLLM (?P<named>[\w-]+))")
"""Newer versions of systemd name the unit, older ones only its description."""

_UNIT = re.compile(r"vllm@(?P<unit>[^ @]+?)\.service")

_ANSWERED = re.compile(r'"(?:GET|POST|HEAD) \S+ HTTP/1\.[01]" 2')

_STATISTICS = "Running: "

STATISTICS_LIMIT = 20
"""Lines of ten seconds each: what was before tells nothing of now."""


@dataclass
class LogStart:
    """The lines of one start and of what ran after it; of what repeats all day, only the first stands there."""

    instance: str
    lines: list[str] = field(default_factory=list)
    statistics: deque[str] = field(default_factory=lambda: deque(maxlen=STATISTICS_LIMIT))
    announced: bool = False
    answered: bool = False


def starts_in(text: str) -> dict[str, list[LogStart]]:
    """Return instance -> its starts, in order; the instance is empty where the log names none."""
    found: dict[str, list[LogStart]] = {}
    for instance, line in _lines(text):
        starts = found.setdefault(instance, [LogStart(instance)])
        if starts[-1].lines and _begins(starts[-1], line):
            starts.append(LogStart(instance))
        _add(starts[-1], line)
    return found


def lines_of_last_starts(text: str) -> str:
    """Return the lines of the last start of each service: what earlier ones suffered from is over."""
    return "\n".join(line for starts in starts_in(text).values() for line in starts[-1].lines)


def _begins(start: LogStart, line: str) -> bool:
    return bool(_STARTING.match(line) or (start.announced and _BANNER.search(line)))


def _add(start: LogStart, line: str) -> None:
    """Keep the line; answered requests and statistics are most of a long log, and each says that it serves."""
    start.announced = start.announced or bool(_BANNER.search(line))
    if _STATISTICS in line:
        start.statistics.append(line)
    repeated = _STATISTICS in line or bool(_ANSWERED.search(line))
    if not (repeated and start.answered):
        start.lines.append(line)
    start.answered = start.answered or repeated


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for raw in plain(text).splitlines():
        instance, line = _collected(raw)
        line = _STAMP.sub("", line, count=1) if line[:2] == "20" else line
        yield instance, _bare(line)


def _collected(raw: str) -> tuple[str, str]:
    """Return the instance and the text of a line as a journal or a container runtime stored it."""
    found = _JOURNAL.match(raw) or _COMPOSE.match(raw)
    if not found:
        return "", raw
    unit, text = found["unit"].removesuffix(".service"), found["text"]
    if unit in ("systemd", "init.scope"):
        return _by_systemd(text, names_units=unit == "init.scope")
    if unit.startswith("vllm@"):
        return unit.removeprefix("vllm@"), text
    return (f"{CONTAINER}{unit}" if "|" in raw[: found.start("text")] else ""), text


def _by_systemd(text: str, *, names_units: bool) -> tuple[str, str]:
    """Return what systemd says of a vLLM unit; a journal that does not name units is taken for that of one."""
    if "vllm" not in text.lower():
        return "", ""
    text = f"systemd: {text}"
    named = (_STARTING.match(text) or _UNIT.search(text)) if names_units else None
    return next((name for name in named.groups() if name), "") if named else "", text


def _bare(line: str) -> str:
    """Return a line without process, rank, time and place; a level below error stays, as its first word."""
    line = _RANK.sub("", _PROCESS.sub("", line, count=1), count=1)
    found = _LEVEL.match(line)
    if not found:
        return line
    level = found["level"]
    return f"{level} {line[found.end() :]}" if level in MILD else line[found.end() :]
