"""PCI configuration space bytes, so that lspci names the stand-ins and shows their links."""

from __future__ import annotations

import struct
from dataclasses import dataclass

GEN4 = 4
SIZE_BYTES = 4096
_EXPRESS = 0x78
_EXTENDED = 0x100

ENDPOINT, ROOT_PORT, UPSTREAM, DOWNSTREAM = 0, 4, 5, 6
"""PCI Express device/port types (PCI Express Base Specification, Capabilities register)."""


@dataclass(frozen=True)
class Function:
    """What the header says of one PCI function; `buses` is primary, secondary, subordinate of a
    bridge, `prefetchable_mib` the size of the memory window of a GPU."""

    vendor: int
    device: int
    class_code: int
    port: int
    subsystem: tuple[int, int] = (0, 0)
    revision: int = 0
    buses: tuple[int, int, int] = (0, 0, 0)
    bars: tuple[int, ...] = ()
    prefetchable_mib: int = 0
    width: int = 16
    width_max: int = 16


def config_space(function: Function) -> bytes:
    """Return 4 KiB: a type 0 or type 1 header, the Express capability and, on ports, ACS (off) and AER."""
    data = bytearray(SIZE_BYTES)
    struct.pack_into("<HHHH", data, 0, function.vendor, function.device, 0x0406, 0x0010)
    struct.pack_into("<I", data, 8, function.class_code << 8 | function.revision)
    if function.port == ENDPOINT:
        _endpoint_header(data, function)
    else:
        _bridge_header(data, function)
    data[0x34] = _EXPRESS
    _express(data, function)
    _extended(data, function.port)
    return bytes(data)


def _endpoint_header(data: bytearray, function: Function) -> None:
    struct.pack_into(f"<{len(function.bars)}I", data, 0x10, *function.bars)
    struct.pack_into("<HH", data, 0x2C, *function.subsystem)


def _bridge_header(data: bytearray, function: Function) -> None:
    data[0x0E] = 1
    data[0x18:0x1B] = bytes(function.buses)
    # A base above its limit: this bridge forwards no window.
    struct.pack_into("<HHHH", data, 0x20, 0xFFF0, 0, 0xFFF1, 1)


def _express(data: bytearray, function: Function) -> None:
    struct.pack_into("<BBH", data, _EXPRESS, 0x10, 0, 2 | function.port << 4)
    struct.pack_into("<I", data, _EXPRESS + 0x0C, GEN4 | function.width_max << 4)
    struct.pack_into("<HH", data, _EXPRESS + 0x10, 0, GEN4 | function.width << 4)
    # Link capabilities 2: speeds 2.5 to 16 GT/s; link control 2: target 16 GT/s.
    struct.pack_into("<I", data, _EXPRESS + 0x2C, 0x1E)
    struct.pack_into("<H", data, _EXPRESS + 0x30, GEN4)


def _extended(data: bytearray, port: int) -> None:
    acs = _EXTENDED + 0x50
    follows = acs if port in (ROOT_PORT, DOWNSTREAM) else 0
    struct.pack_into("<I", data, _EXTENDED, 0x0001 | 2 << 16 | follows << 20)
    if follows:
        struct.pack_into("<IHH", data, acs, 0x000D | 1 << 16, 0x005F, 0)
