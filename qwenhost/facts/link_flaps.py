"""Links of HCA ports that went down: in the kernel log, in `rdma` and `dmesg` output, in NCCL's log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from qwenhost.facts.kernel_lines import KERNEL_LOG, kernel_log
from qwenhost.facts.nccl_log import LOG, log_of_file
from qwenhost.facts.rdma_ports import RDMA_LINK
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.facts.vllm_log import JOURNAL
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


@dataclass(frozen=True)
class Drop:
    """One line that tells that a link went down. `seconds` since the host started, None: not known."""

    line: str
    seconds: float | None = None


@dataclass(frozen=True)
class LinkFlaps:
    """Device, interface or bus id -> its drops. `in_use`: those that NCCL met while it used the port."""

    drops: Mapping[str, tuple[Drop, ...]] = field(default_factory=dict)
    in_use: Mapping[str, str] = field(default_factory=dict)

    def merge(self, other: LinkFlaps) -> LinkFlaps:
        """Join two logs; of one device the longer list counts, since both may tell of the same drops."""
        drops = {
            name: max(self.drops.get(name, ()), other.drops.get(name, ()), key=len)
            for name in (*self.drops, *other.drops)
        }
        return LinkFlaps(drops, {**other.in_use, **self.in_use})


_DOWN = (
    re.compile(
        r"(?:mlx[45]_(?:core|en)|bnxt_en|irdma|ice) [0-9a-f:.]+ (?P<name>[\w.-]+): (?:NIC )?Link (?:is )?[Dd]own"
    ),
    re.compile(
        r"mlx[45]_(?:core|en) (?P<name>[0-9a-f:.]+): Port module event\S*:? module \d+, Cable (?:unplugged|error)"
    ),
    re.compile(
        r"infiniband (?P<name>\w+): .{0,200}port \d+ (?:is |state (?:changed )?(?:to )?)?"
        r"(?:down|DOWN|inactive|error)"
    ),
    re.compile(r"(?<![\w.])(?P<name>ib[\w.]+): (?:link (?:is )?down|Link down|port (?:error|down))"),
)
_WORDS = (
    *("link down", "link is down", "cable unplugged", "cable error", "infiniband", ": port error", ": port down"),
)


@parses(KERNEL_LOG)
def flaps_in_kernel_log(capture: Capture) -> LinkFlaps:
    """Parse the drivers' lines of this boot."""
    found = dict[str, list[Drop]]()
    for message in kernel_log(capture).messages(_WORDS):
        name = _gone_down(message.text)
        if name and not message.earlier_boot:
            seconds = message.seconds if message.clock == "boot" else None
            found.setdefault(name, []).append(Drop(message.text.strip(), seconds))
    return LinkFlaps({name: tuple(drops) for name, drops in found.items()})


def _gone_down(text: str) -> str:
    found = (pattern.search(text) for pattern in _DOWN)
    return next((match["name"] for match in found if match), "")


@parses(RDMA_LINK, trust=1)
def flaps_in_rdma(capture: Capture) -> LinkFlaps:
    """Parse `rdma link` or `rdma monitor`: a port that stands there with several states was caught in between."""
    states = dict[str, list[tuple[str, str]]]()
    for line in re.finditer(r"^link (\S+)/\d+ .*?\bstate (\w+) .*$", plain(capture.text), re.MULTILINE):
        states.setdefault(line[1], []).append((line[2], line[0].strip()))
    return LinkFlaps({name: _changes(seen) for name, seen in states.items() if _changes(seen)})


def _changes(seen: Iterable[tuple[str, str]]) -> tuple[Drop, ...]:
    """Return a drop for each time that a state was down, for a port that was also seen up."""
    rows = tuple(seen)
    down = tuple(Drop(line) for state, line in rows if state == "DOWN")
    return down if any(state == "ACTIVE" for state, _ in rows) else ()


@parses(JOURNAL, trust=1)
@parses(LOG, trust=1)
def flaps_that_nccl_met(capture: Capture) -> LinkFlaps:
    """Take the port errors that NCCL tells of in a log, or in a service's journal."""
    errors = log_of_file(capture).port_errors
    if not errors:
        raise Unparsable("NCCL tells of no port in it")
    return LinkFlaps(in_use=errors)
