"""The kernel log as lines: its stamps in every style, and the few lines that hold given words.

A log of megabytes is searched for words first, which is fast; only the lines found are taken apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import pairwise

from qwenhost.facts.reading import plain
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.literals import Gist
from qwenhost.records.source import command

_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = rf"(?:{'|'.join(_MONTHS)})"
_ISO = r"\d{4}-\d\d-\d\dT[\d:]{8}"
_ZONE = r"(?:Z|[+-]\d\d:?\d\d)"

_HEAD = (
    r"(?:\[\s*\+?\d+\.\d+\](?! \[\S+:\d)"  # dmesg, dmesg -d; not the log of UCX
    rf"|\[{_DAY} {_MONTH} +\d+ [\d:]{{8}} \d{{4}}\]"  # dmesg -T
    r"|\d+,\d+,\d+,[^;\s]*;"  # /dev/kmsg
    r"|<\d+>\s*\[\s*\d+\.\d+\]"  # pstore
    rf"|(?:kern|user)\s*:\w+\s*: ?(?:\[|{_ISO})"  # dmesg -x
    r"|\S+: (?:kern|user): +\w+: \["  # a cluster manager's log command
    rf"|{_ISO}(?:,\d+{_ZONE} |\.\d+{_ZONE} \S+ kernel: )"  # dmesg --time-format iso; syslog
    rf"|{_ISO}{_ZONE} \S+ kernel: "  # journal, short-iso
    rf"|{_DAY} \d{{4}}-\d\d-\d\d [\d:]{{8}} \S+ \S+ kernel: "  # journal, short-full
    r"|\d{10}\.\d+ \S+ kernel: "  # journal, short-unix
    r"|\{[^\n]*\"_TRANSPORT\" ?: ?\"kernel\""  # journal, json
    r"|[^\W\d_]{3,5}\.? +\d+ [\d:]{8}(?:\.\d+)? \S+ kernel:)"  # syslog, journal, in any language
)

_PASTED = (
    r"(?:> ?)*"  # quoted in a mail
    rf"(?:{_MONTH} \d\d [\d:]{{8}} )?"  # ts
    r"(?:\d+[:-]|/[\w./-]{1,100}[:-](?:\d+[:-])?|[\w.-]{1,64}: )?"  # grep -n, grep -H, pdsh
)
"""What other tools write before a line."""

_DRIVER = r"NVRM: \w+:? [\w(]|\bXid \(PCI:\w"
"""The driver's own words, whatever a collector of logs has put around them."""

KERNEL_LOG = command("dmesg", "dmesg", "--ctime", looks_like=rf"^\s*{_PASTED}{_HEAD}|^\s*NVRM: |{_DRIVER}")
"""Shared by all facts that come from the kernel log."""

_STAMP = re.compile(
    rf"\s*{_PASTED}"
    r"(?:\S+: (?:kern|user): +\w+: |\w+\s*:\w+\s*: ?|<\d+>\s*)?"
    r"(?:\[\s*(?P<boot>\d+\.\d+)\](?:\s?\[\s*[TC]\d+\])?"  # with the caller, where the kernel is built so
    rf"|\[\s*(?P<step>\+\d+\.\d+|{_MONTH}\d+ [\d:]+)\s*\]"
    rf"|\[{_DAY} (?P<local>{_MONTH} +\d+ [\d:]{{8}} \d{{4}})\]"
    r"|\d+,\d+,(?P<kmsg>\d+),[^;\s]*;"
    rf"|\[?(?P<iso>{_ISO}(?:[.,]\d+)?{_ZONE})\]?:?"
    rf"|{_DAY} (?P<full>\d{{4}}-\d\d-\d\d [\d:]{{8}})(?: (?!\S+ \w+\[)\S+(?= \S+ ))?"
    r"|(?P<unix>\d{10}\.\d+)(?= )"
    rf"|(?P<syslog>{_MONTH} +\d+ [\d:]{{8}}(?:\.\d+)?))"
    r"\s*(?:\S+ kernel: ?)?(?:\[\s*\d+\.\d+\]\s?)?"
)

WHOLE_LINES = 100
"""A host's log is longer, or begins with its boot."""

_ONE_SUBJECT = re.compile(r"NVRM|nvidia|Xid|mlx5", re.IGNORECASE)

_BOOT = re.compile(r"^Linux version \d|^-- (?:Boot \w+|Reboot) --")
"""A new boot: what was said before it no longer holds."""

_BOOT_WORDS = ("linux version ", "-- boot ", "-- reboot --")


@dataclass(frozen=True)
class Message:
    """One message without its stamp. `at`: the stamp as printed, empty where there is none.

    `seconds` are comparable among messages of the same `clock`: "boot", "utc", "local" or "syslog" (which
    names no year). `ended`: offset of the next line. `earlier_boot`: the log shows a later boot.
    """

    text: str
    at: str = ""
    clock: str = ""
    seconds: float = 0.0
    stamped: bool = True
    ended: int = 0
    earlier_boot: bool = False


@dataclass(frozen=True)
class KernelLog:
    """One capture of the kernel log. `cut`: a part of it is missing."""

    content: str
    cut: bool = False

    @cached_property
    def _bytes(self) -> bytes:
        return self.content.encode("utf-8", "surrogatepass")

    @cached_property
    def _gist(self) -> Gist:
        """What it says, in lower case (ASCII), so that offsets agree."""
        return Gist(self._bytes.lower())

    def messages(self, words: Iterable[str]) -> tuple[Message, ...]:
        """Return the messages with one of these words, oldest first where that can be told.

        Words are in lower case; all their digits count as alike.
        """
        starts = sorted({start for word in (*_BOOT_WORDS, *words) for start in self._gist.starts(word)})
        found = _oldest_first(list(_continued(map(self._message, starts))))
        boots = [number for number, message in enumerate(found) if _BOOT.search(message.text)]
        last = boots[-1] if boots else 0
        return tuple(replace(m, earlier_boot=True) if n < last else m for n, m in enumerate(found))

    def after(self, message: Message, count: int) -> Iterator[Message]:
        """Yield the next `count` messages behind `message`, whatever words they hold."""
        start = message.ended
        for _ in range(count):
            if start >= len(self._bytes):
                return
            following = self._message(start)
            yield following
            start = following.ended

    def _line_end(self, start: int) -> int:
        end = self._bytes.find(b"\n", start)
        return len(self._bytes) if end < 0 else end

    def _message(self, start: int) -> Message:
        end = self._line_end(start)
        line = self._bytes[start:end].decode("utf-8", "surrogatepass")
        return _taken_apart(line, end + 1)


@lru_cache(maxsize=4)
def kernel_log(capture: Capture) -> KernelLog:
    """Read a kernel log in any of its stamps; raises Unparsable when no line looks like one."""
    text = plain(capture.text)
    if not KERNEL_LOG.recognises(text):
        raise Unparsable("no kernel log line in it")
    return KernelLog(_from_json(text) if text.lstrip().startswith("{") else text, capture.truncated)


def is_excerpt(text: str) -> bool:
    """Tell whether a log that was sent is only what somebody picked out of it: it shows no absence."""
    if "Linux version " in text:
        return False
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) < WHOLE_LINES or all(map(_ONE_SUBJECT.search, lines))


def _from_json(text: str) -> str:
    """Return `journalctl -o json` as lines with the time in seconds; fields that are no text are left out."""
    lines = [line for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
    records = [record for record in map(json.loads, lines) if "MESSAGE" in record]
    told = "".join(
        f"{int(record.get('__REALTIME_TIMESTAMP', 0)) / 1e6:.6f} host kernel: {record['MESSAGE']}\n"
        for record in records
        if record.get("_TRANSPORT") == "kernel" and isinstance(record.get("MESSAGE"), str)
    )
    return told if records else text  # another kind of JSON is read line by line


def _taken_apart(line: str, ended: int) -> Message:
    found = _STAMP.match(line)
    if not found:
        return Message(line.rstrip(), stamped=False, ended=ended)
    style = found.lastgroup or ""
    clock, seconds = _time(style, found[style])
    return Message(line[found.end() :].rstrip(), found[style], clock, seconds, ended=ended)


def _time(style: str, printed: str) -> tuple[str, float]:
    """Return clock and seconds; no clock for stamps that are steps, or no date after all."""
    try:
        if style in ("boot", "kmsg"):
            return "boot", float(printed) / (1e6 if style == "kmsg" else 1)
        if style in ("iso", "unix"):
            return "utc", float(printed) if style == "unix" else _iso(printed)
        if style in ("local", "syslog"):
            return style, _calendar(printed)
        if style == "full":
            return "local", datetime.fromisoformat(printed).replace(tzinfo=UTC).timestamp()
    except ValueError:
        pass
    return "", 0.0


def _calendar(printed: str) -> float:
    """Return seconds of "Nov 30 10:11:12 2026"; a year that is not named counts as 2000, a leap year.

    A quarter of the time that strptime takes, for logs of a hundred thousand errors.
    """
    month, day, clock, year = (*printed.split(), "2000")[:4]
    hour, minute, second = clock.split(":")
    date = datetime(int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), tzinfo=UTC)
    return date.timestamp() + float(second)


def _iso(printed: str) -> float:
    """Return seconds since 1970; fractions have up to nine digits, zones may lack their colon."""
    head, fraction, zone = printed[:19], re.findall(r"[.,](\d+)", printed), re.findall(rf"{_ZONE}$", printed)
    return datetime.fromisoformat(f"{head}.{(fraction or ['0'])[0][:6]:0<6}{zone[0]}").timestamp()


def _continued(messages: Iterable[Message]) -> Iterator[Message]:
    """Give lines without a stamp that of the message that they continue."""
    last = Message("")
    for message in messages:
        if not message.stamped:
            message = replace(message, at=last.at, clock=last.clock, seconds=last.seconds)
        last = message
        yield message


def _oldest_first(messages: list[Message]) -> list[Message]:
    """Sort by date; a log whose times only fall was printed newest first (journalctl -r)."""
    clocks = {message.clock for message in messages}
    if len(clocks) != 1 or clocks & {""}:
        return messages
    if clocks & {"utc", "local"}:
        return sorted(messages, key=lambda message: message.seconds)
    times = [message.seconds for message in messages]
    falls = times[0] > times[-1] and all(one >= two for one, two in pairwise(times))
    return messages[::-1] if falls and clocks == {"syslog"} else messages
