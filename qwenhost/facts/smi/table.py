"""GPU facts from the summary table of `nvidia-smi`, 79 and 91 columns wide."""

from __future__ import annotations

import re
from typing import Any

from qwenhost.facts.gpus import TABLE, Gpu, Gpus
from qwenhost.facts.reading import bus_id, flag, number, plain, value
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

_FIRST = re.compile(
    r"^[^\w|\n]*\|\s+(?P<index>\d+)\s+(?P<name>\S.*?)\s+(?P<persistence>On|Off)\s*"
    r"\|\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)\s+\S+\s*\|\s*(?P<ecc>.*?)\s*\|"
)
_SECOND = re.compile(
    r"^[^\w|\n]*\|\s*(?P<fan>\S+)\s+(?P<temperature>\S+)\s+(?P<state>P\d+|ERR!|N/A)\s+(?P<usage>\S+)\s*/\s*(?P<limit>\S+)\s*"
    r"\|\s*(?P<used>\S+)\s*/\s*(?P<total>\S+)\s*\|\s*(?P<utilization>\S+)"
)
_THIRD = re.compile(r"^[^\w|\n]*\|\s+\|\s+\|\s*(?P<mig>Enabled\*?|Disabled\*?|N/A)\s*\|")


@parses(TABLE, trust=2)
def gpus_from_table(capture: Capture) -> Gpus:
    """Parse the rows of all GPUs; raises Unparsable for a message in place of a table."""
    lines = [line.strip("* ") for line in plain(capture.text).splitlines()]
    if any(line.startswith("No devices were found") for line in lines):
        return Gpus((), 0)
    if not any("NVIDIA-SMI" in line and line.startswith("|") for line in lines):
        raise Unparsable(f"no table: {capture.text.strip()[:80]}")
    heads = [number for number, line in enumerate(lines) if _FIRST.match(line)]
    if not heads:
        raise Unparsable("no row of a GPU in the table")
    return Gpus(tuple(_gpu(lines[head : head + 3]) for head in heads), len(heads))


def _gpu(lines: list[str]) -> Gpu:
    first = _FIRST.match(lines[0])
    second = next((found for line in lines[1:] if (found := _SECOND.match(line))), None)
    third = next((found for line in lines[1:] if (found := _THIRD.match(line))), None)
    if first is None:
        raise Unparsable(f"row not understood: {lines[0][:80]}")
    mig = third["mig"] if third else None
    current = flag(mig.rstrip("*")) if mig else None
    return Gpu(
        index=int(first["index"]),
        bus_id=bus_id(first["bus"]),
        name=None if first["name"].endswith("...") else first["name"],
        persistence=flag(first["persistence"]),
        mig=current,
        mig_pending=current if not mig or "*" not in mig else not current,
        ecc=None if not value(first["ecc"]) else first["ecc"] != "Off",
        ecc_uncorrected_volatile=int(first["ecc"]) if first["ecc"].isdigit() else None,
        **(_readings(second) if second else {}),
        lost="ERR! in place of its values" if second and _silent(second) else None,
    )


def _silent(row: re.Match[str]) -> bool:
    """Tell a GPU that answers no question from a single value, such as a fan's, that cannot be read."""
    return row["state"] == row["temperature"] == "ERR!"


def _readings(row: re.Match[str]) -> dict[str, Any]:
    state = row["state"]
    return {
        "fan": row["fan"],
        "temperature_celsius": number(row["temperature"]),
        "performance_state": int(state[1:]) if state.startswith("P") else None,
        "power_usage_watts": number(row["usage"]),
        "power_limit_watts": number(row["limit"]),
        "memory_used_mib": number(row["used"]),
        "memory_total_mib": number(row["total"]),
        "utilization_percent": number(row["utilization"]),
    }
