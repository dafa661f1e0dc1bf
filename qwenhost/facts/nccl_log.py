"""What NCCL tells of itself in a log: its version, the HCAs that it uses, and its warnings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.facts.vllm_lines import lines_of_last_starts
from qwenhost.facts.vllm_log import JOURNAL
from qwenhost.facts.vllm_log import LOG as VLLM_LOG
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import recorded

LOG = recorded("nccl-log", looks_like=r"\bNCCL (?:INFO|WARN) ")


@dataclass(frozen=True)
class NcclLog:
    """`direct`: HCA -> whether NCCL moves data between it and GPUs without a copy in host memory.

    `direct_line`: one line that tells so. `port_errors`: HCA -> line about a port that failed while in use.
    `warnings`: each kind once, without host, process and place.
    """

    version: str = ""
    hcas: tuple[str, ...] = ()
    direct: Mapping[str, bool] = field(default_factory=dict)
    direct_line: str = ""
    port_errors: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    """Transports of its channels, such as P2P, SHM and NET/Socket, each once."""

    def merge(self, other: NcclLog) -> NcclLog:
        """Add what another log tells."""
        return NcclLog(
            self.version or other.version,
            tuple(dict.fromkeys((*self.hcas, *other.hcas))),
            {**other.direct, **self.direct},
            self.direct_line or other.direct_line,
            {**other.port_errors, **self.port_errors},
            tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            tuple(dict.fromkeys((*self.ways, *other.ways))),
        )


@parses(LOG)
def log_of_file(capture: Capture) -> NcclLog:
    """Parse any log with NCCL's lines in it."""
    return _read(plain(capture.text))


@parses(JOURNAL, trust=1)
def log_of_journal(capture: Capture) -> NcclLog:
    """Parse the last start of each service in the journal."""
    return _read(lines_of_last_starts(capture.text))


@parses(VLLM_LOG, trust=1)
def log_of_vllm(capture: Capture) -> NcclLog:
    """Parse the last start of each service in a log, for the version that vLLM names."""
    return _read(lines_of_last_starts(capture.text))


_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)|is using nccl==(\d+\.\d+\.\d+)")
_USING = re.compile(r"NET/IB : Using((?: \[\d+\]\S+)+)")
_DIRECT = re.compile(
    r"^.*GPU Direct RDMA (?:\(\w+\) )?(Enabled|Disabled|enabled|disabled) for HCA \d+ '([^']+)'", re.M
)
_PORT_ERROR = re.compile(
    r"^.*NET/IB : (?:(\S+?):\d+ )?Got (?:async event|non-fatal async event|fatal async error).*"
    r"(?:port error|port changed|device fatal).*$",
    re.MULTILINE,
)
_WAY = re.compile(r"NCCL INFO Channel .* via (P2P|SHM|NET/\w+|NVLS|CollNet)")
_WARNING = re.compile(r"\bNCCL WARN (.+?)\s*$", re.MULTILINE)


def _read(text: str) -> NcclLog:
    version, direct = _VERSION.search(text), [*_DIRECT.finditer(text)]
    if not version and "NCCL INFO" not in text and "NCCL WARN" not in text:
        raise Unparsable("no line of NCCL in it")
    used = [name for found in _USING.finditer(text) for name in re.findall(r"\](\w+):", found[1])]
    return NcclLog(
        version=(version[1] or version[2]) if version else "",
        hcas=tuple(dict.fromkeys((*used, *(found[2] for found in direct)))),
        direct={found[2]: found[1].lower() == "enabled" for found in direct},
        direct_line=direct[-1][0].strip() if direct else "",
        port_errors={found[1] or "an HCA": found[0].strip() for found in _PORT_ERROR.finditer(text)},
        warnings=tuple(dict.fromkeys(_WARNING.findall(text))),
        ways=tuple(dict.fromkeys(_WAY.findall(text))),
    )
