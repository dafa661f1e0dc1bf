"""What the kernel and modprobe say about the module for GPUDirect RDMA, nvidia_peermem."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.kernel_lines import KERNEL_LOG, kernel_log
from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded

MODPROBE = recorded("modprobe", looks_like=r"modprobe: (?:ERROR|FATAL): .*n(?:vidia|v)[-_]peer[-_]?mem")


@dataclass(frozen=True)
class PeermemTrouble:
    """`refused`: the module could not be loaded; `errors`: it complained while it ran. Lines, each once."""

    refused: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    count: int = 0

    def merge(self, other: PeermemTrouble) -> PeermemTrouble:
        """Join two logs."""
        refused, errors = (
            dict.fromkeys((*self.refused, *other.refused)),
            dict.fromkeys((*self.errors, *other.errors)),
        )
        return PeermemTrouble(tuple(refused), tuple(errors), max(self.count, other.count))


_MODULE = r"n(?:vidia|v)[-_]peer[-_]?mem"
_REFUSED = re.compile(
    rf"{_MODULE}: (?:Unknown symbol|disagrees about version|no symbol version|.*version magic)"
    rf"|modprobe: .*{_MODULE}|{_MODULE}.*(?:[Ii]nit failed|could not (?:be )?insert)"
)
_ERROR = re.compile(rf"{_MODULE}\W.*\b(?:ERROR|error|failed|invalid context|BUG)\b")


@parses(KERNEL_LOG)
def trouble_in_kernel_log(capture: Capture) -> PeermemTrouble:
    """Parse the module's lines of this boot."""
    messages = kernel_log(capture).messages(("peermem", "peer_mem"))
    lines = [message.text.strip() for message in messages if not message.earlier_boot]
    refused = [line for line in lines if _REFUSED.search(line)]
    errors = [line for line in lines if _ERROR.search(line) and line not in refused]
    return PeermemTrouble(tuple(dict.fromkeys(refused)), tuple(dict.fromkeys(errors)), len(errors))


@parses(MODPROBE, trust=1)
def trouble_of_modprobe(capture: Capture) -> PeermemTrouble:
    """Parse what modprobe printed."""
    lines = [line.strip() for line in plain(capture.text).splitlines() if MODPROBE.recognises(line)]
    if not lines:
        raise Unparsable("modprobe says nothing of it")
    return PeermemTrouble(refused=tuple(dict.fromkeys(lines)))
