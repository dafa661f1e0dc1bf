"""One start of a vLLM service as its log tells it: how far it came, what ended it, what it said of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from qwenhost.facts.vllm_lines import MILD, LogStart
from qwenhost.facts.vllm_wordings import Wording, wordings

ROOT = re.compile(
    r"^(?:(?:[a-zA-Z_][\w.]{0,120}\.)?(?:[A-Z]\w{0,80}(?:Error|Exception|Interrupt)|OutOfResources|BackendCompilerFailed)"
    r"(?:: (?!None\b).*|$)"
    r"|Fatal Python error: .*|Segmentation fault.*| +(?:Value error|Assertion failed), .*| +assert .*)",
    re.MULTILINE,
)
"""The last line of a traceback, pydantic's own form of it, and the code of a failed assertion."""

MORE = re.compile(
    r"root cause above|stack trace \(above\)|EngineDeadError|KeyboardInterrupt|CancelledError|ProcessRaised"
    r"|ValidationError: \d+ validation error|^AssertionError$|WorkerProc initialization failed|RPC call to"
)
"""Errors that only say that there was another one."""

State = Literal["starting", "ready", "failed", "died", "stopped"]

LINE_LIMIT = 300

SAME_LIMIT = 100
"""Of lines of one kind, the last ones tell as much as all."""


@dataclass(frozen=True)
class LogEvent:
    """A line that the table of wordings knows. `values`: its named figures, empty text for those left out."""

    wording: Wording
    line: str
    values: Mapping[str, str]
    at: int

    @property
    def mild(self) -> bool:
        """Said as information or warning, so nothing ended by it."""
        return self.line.partition(" ")[0] in MILD

    @property
    def observed(self) -> str:
        """What it says, in short."""
        return self.wording.observed.format_map(self.values).strip()

    @property
    def expected(self) -> str:
        """What would have been right; empty where the line does not tell the figure."""
        parts = self.wording.expected.format_map(self.values)
        return parts if all(self.values[name] for name in re.findall(r"{(\w+)}", self.wording.expected)) else ""


@dataclass(frozen=True)
class Statistics:
    """One line of the engine's statistics, written every ten seconds while there are requests."""

    running: int
    waiting: int
    hit_percent: float | None
    cache_percent: float | None
    line: str


@dataclass(frozen=True)
class VllmStart:
    """The last start of one service that a log shows.

    `cause` ended it, where it is known; `root` is the first exception that is no consequence. `restarts`: how
    often it was started again by systemd's own count or, where that is not there, after a failure.
    """

    instance: str
    state: State
    version: str
    events: tuple[LogEvent, ...]
    statistics: tuple[Statistics, ...]
    cause: LogEvent | None
    root: str
    was_ready: bool
    restarts: int
    model: str
    """Every name or path of the model that the log gives."""

    def of(self, name: str) -> LogEvent | None:
        """Return the last line of this kind."""
        return next((event for event in reversed(self.events) if event.wording.name == name), None)

    def told(self, check: str) -> LogEvent | None:
        """Return the cause of its end, if it is this check that tells it."""
        return self.cause if self.cause and self.cause.wording.check == check else None


def last_start(starts: Sequence[LogStart]) -> VllmStart:
    """Read the last of a service's starts, and how many of the others failed."""
    text = "\n".join(starts[-1].lines)
    events = _events(text)
    state, was_ready, end = _state(events)
    cause = _cause(events, state, was_ready)
    return VllmStart(
        instance=starts[-1].instance,
        state=state,
        version=_version(text),
        events=events,
        statistics=tuple(_statistics("\n".join(starts[-1].statistics))),
        cause=cause,
        root="" if cause else _root(text, events, was_ready, end),
        was_ready=was_ready,
        restarts=_restarts(starts),
        model=_model(text),
    )


def _events(text: str) -> tuple[LogEvent, ...]:
    found = [
        _event(wording, match, text)
        for wording in wordings()
        for says in wording.says
        for match in [*says.finditer(text)][-SAME_LIMIT:]
    ]
    return tuple(sorted(found, key=lambda event: event.at))


def _event(wording: Wording, match: re.Match[str], text: str) -> LogEvent:
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    line = text[start : end if end >= 0 else len(text)].strip()
    values = {name: value or "" for name, value in match.groupdict().items()}
    asked = re.findall(r"{(\w+)}", wording.observed + wording.expected)
    return LogEvent(wording, line[:LINE_LIMIT], dict.fromkeys(asked, "") | values, match.start())


def _state(events: tuple[LogEvent, ...]) -> tuple[State, bool, int | None]:
    """Return how it ended, whether it ever served, and where it was told to stop.

    What a service says after it was told to stop sounds like a crash and is none.
    """
    state: State = "starting"
    was_ready = False
    for event in events:
        effect = event.wording.effect
        if effect == "stopped" and state in ("starting", "ready"):
            return "stopped", was_ready, event.at
        if effect == "ready" and state in ("starting", "failed"):
            state, was_ready = "ready", True
        elif effect in ("failed", "cause", "wrapper") and not (was_ready or event.mild):
            state = "failed"
        elif effect == "died":
            state = "died" if was_ready else "failed"
    return state, was_ready, None


def _cause(events: tuple[LogEvent, ...], state: State, was_ready: bool) -> LogEvent | None:
    """Return the first line that explains the end: later ones are told by processes that were let down."""
    if state not in ("failed", "died"):
        return None
    ready = [event.at for event in events if event.wording.effect == "ready"]
    told = [event for event in events if not event.mild and (not was_ready or event.at > ready[0])]
    for effect in ("cause", "wrapper"):
        for event in told:
            if event.wording.effect == effect:
                return event
    return None


def _root(text: str, events: tuple[LogEvent, ...], was_ready: bool, end: int | None) -> str:
    """Return the first error that is no consequence of another one, of those after it was ready if it was."""
    begin = next((event.at for event in events if event.wording.effect == "ready"), 0) if was_ready else 0
    told = (match[0] for match in ROOT.finditer(text[begin:end]))
    return next((line.strip()[:LINE_LIMIT] for line in told if not MORE.search(line)), "")


def _restarts(starts: Sequence[LogStart]) -> int:
    events = [_events("\n".join(start.lines)) for start in starts]
    counted = [
        int(event.values["count"]) for told in events for event in told if event.wording.name == "restarted"
    ]
    return counted[-1] if counted else sum(_state(told)[0] in ("failed", "died") for told in events[:-1])


_VERSION = re.compile(
    r"vLLM API server version v?(\d[\w.+]*)|█ {1,4}version v?(\d[\w.+]*)|LLM engine \(v(\d[\w.+]*)\)"
)


def _version(text: str) -> str:
    found = _VERSION.search(text)
    return next((version for version in found.groups() if version), "") if found else ""


_MODEL = re.compile(r"'model(?:_tag)?': '([^']+)'|LLM engine .{0,80}?\bmodel='([^']+)'|█ {1,4}model +(\S+)")


def _model(text: str) -> str:
    return " ".join(dict.fromkeys(name for found in _MODEL.finditer(text) for name in found.groups() if name))


_RUNNING = re.compile(
    r"^.*Running: (?P<running>\d+) reqs\b.*?(?:Waiting|Pending): (?P<waiting>\d+) reqs.*$", re.MULTILINE
)
_HITS = re.compile(r"Prefix cache hit rate: (?:GPU: )?(?P<hits>[\d.]+)%")
_USAGE = re.compile(r"GPU KV cache usage: (?P<usage>[\d.]+)%")


def _statistics(text: str) -> Iterator[Statistics]:
    for found in _RUNNING.finditer(text):
        line = found[0]
        yield Statistics(
            running=int(found["running"]),
            waiting=int(found["waiting"]),
            hit_percent=_percent(_HITS, line),
            cache_percent=_percent(_USAGE, line),
            line=line.strip()[:LINE_LIMIT],
        )


def _percent(pattern: re.Pattern[str], line: str) -> float | None:
    found = pattern.search(line)
    return float(found[1]) if found else None
