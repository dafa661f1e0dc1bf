"""A GPU from one block of `nvidia-smi -q`, text or XML: {"section/key": "value"}, the keys in lower case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from qwenhost.facts.gpus import Gpu
from qwenhost.facts.reading import bus_id, flag, lost, number, value
from qwenhost.facts.smi.keys import KEYS, Reader

Paths = Mapping[str, str]


_REASONS = {
    "idle": "idle",
    "gpu_idle": "idle",
    "applications clocks setting": "application clocks",
    "sw power cap": "software power cap",
    "sw power capping": "software power cap",
    "hw slowdown": "hardware slowdown",
    "hw thermal slowdown": "hardware thermal slowdown",
    "hw power brake slowdown": "hardware power brake",
    "hw power brake": "hardware power brake",
    "hw power braking": "hardware power brake",
    "sw thermal slowdown": "software thermal slowdown",
    "sync boost": "sync boost",
    "display clock setting": "display clock",
    "display clocks setting": "display clock",
}
"""Reason names of `nvidia-smi -q` up to 530, 535 and later, and of the XML without their prefix."""


def gpu_from(paths: Paths, address: str, index: int | None) -> Gpu:
    """Build a GPU from one block. A block full of "GPU is lost" or "Unknown Error" is a lost GPU."""
    gone = _lost(paths)
    if gone:
        return Gpu(bus_id=bus_id(address) or None, index=index, name=value(paths.get("product name")), lost=gone)
    fields = {name: _first(paths, read, keys) for name, (read, keys) in KEYS.items()}
    return Gpu(
        bus_id=bus_id(address) or None,
        index=index,
        slowdowns=slowdowns(paths),
        ecc_uncorrected_volatile=_uncorrected(paths, "volatile"),
        ecc_uncorrected_aggregate=_uncorrected(paths, "aggregate"),
        **fields,
    )


def _first(paths: Paths, read: Reader, keys: tuple[str, ...]) -> Any:
    return next((found for key in keys if (found := read(paths.get(key))) is not None), None)


_SIGNS_OF_LIFE = 3
"""Values that read as lost before a block counts as lost: single fields read "Unknown Error" on sound
cards.
"""


def _lost(paths: Paths) -> str | None:
    gone = [text.strip() for text in paths.values() if lost(text) and "ERR!" not in text]
    alive = any(paths.get(key) and value(paths[key]) for key in ("performance state", "performance_state"))
    return gone[0] if len(gone) >= _SIGNS_OF_LIFE and not alive else None


def slowdowns(paths: Paths) -> frozenset[str] | None:
    """Return the active reasons for lower clocks; None where no reason is told of."""
    states = {}
    for path, text in paths.items():
        parts = re.match(r"(?:clocks (?:throttle|event) reasons|clocks_(?:throttle|event)_reasons)/(.*)", path)
        if parts:
            states[_reason(parts[1])] = flag(text)
    seen = {name: state for name, state in states.items() if name and state is not None}
    return frozenset(name for name, state in seen.items() if state) if seen else None


def _reason(path: str) -> str:
    bare = re.sub(r"^clocks_(?:throttle|event)_reason_", "", path.rsplit("/", 1)[-1])
    return _REASONS.get(bare) or _REASONS.get(bare.replace("_", " "), "")


def _uncorrected(paths: Paths, period: str) -> int | None:
    """Return the uncorrected errors of one period: the sum over SRAM and DRAM, or the total of older boards."""
    prefix = re.compile(rf"(?:ecc errors|ecc_errors)/{period}/(.*)")
    told = {found[1]: number(text) for path, text in paths.items() if (found := prefix.fullmatch(path))}
    total = told.get("double bit/total", told.get("double_bit/total"))
    if total is not None:
        return total
    parts = [name for name in told if "uncorrectable" in name and "threshold" not in name]
    counts = [count for name in parts if (count := told[name]) is not None]
    return sum(counts) if counts else None
