"""Replace what identifies a host; equal values stay equal, so that findings do not change.

Kept: PCI addresses, versions, loopback addresses. A value keeps its form: a UUID is replaced by a UUID.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_HEX = "[0-9a-fA-F]"
UUID = re.compile(rf"\b{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}\b")
MAC = re.compile(rf"(?<![\w:]){_HEX}{{2}}(?::{_HEX}{{2}}){{5}}(?![\w:])")
IPV4 = re.compile(r"(?<![\w.\-])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
IPV6 = re.compile(rf"(?<![\w:.]){_HEX}{{0,4}}(?::{_HEX}{{0,4}}){{2,7}}(?![\w:.])")

SERIALS = (
    re.compile(r'"[a-z_]*serial[a-z_]*": "([^"]+)"', re.IGNORECASE),
    re.compile(r"<[a-z_]*serial[a-z_]*>([^<]+)<", re.IGNORECASE),
    re.compile(r"\bserial(?: number)?(?:\s*:\s*|\s+)(\S*\d\S*)", re.IGNORECASE),
)
"""How JSON, XML and plain text of the driver, lspci and dmidecode name a serial number."""

SECRET = re.compile(r"(\b\w*(?:TOKEN|SECRET|PASSWORD|API_KEY)\w*=\\?[\"']?)[^\s\"'\\]+")
"""A variable of a service's environment file, as it stands there and within JSON."""

SHORTEST_SERIAL = 6
"""Shorter values are counters and enumerations, and occur everywhere."""

SHORTEST_NAME = 3
"""A shorter host name is part of too many words; it is replaced where it stands as the host's name only."""

HOST_NAME = "host1"


@dataclass
class Scrubber:
    """Replacements for one bundle; `words` are literal values that are replaced wherever they stand."""

    words: dict[str, str] = field(default_factory=dict)
    given: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def over(cls, host: str, texts: Iterable[str]) -> Scrubber:
        """Learn the serial numbers in `texts` and the host's name."""
        scrubber = cls()
        found = {serial for text in texts for pattern in SERIALS for serial in pattern.findall(text)}
        for number, serial in enumerate(sorted(filter(_is_serial, found)), 1):
            scrubber.words[serial] = f"{number:0{len(serial)}d}"
        for name in (host, host.partition(".")[0]):
            if len(name) >= SHORTEST_NAME:
                scrubber.words.setdefault(name, HOST_NAME)
        return scrubber

    def clean(self, text: str) -> str:
        """Return `text` without what identifies the host."""
        for word in sorted(self.words, key=len, reverse=True):
            text = re.sub(rf"(?<![\w]){re.escape(word)}(?![\w])", self.words[word], text)
        text = SECRET.sub(r"\g<1>REMOVED", text)
        text = UUID.sub(self._numbered("uuid", "00000000-0000-4000-8000-{:012x}"), text)
        text = MAC.sub(self._numbered("mac", "02:00:00:00:00:{:02x}"), text)
        text = IPV6.sub(self._address("ipv6", "2001:db8::{:x}"), text)
        return IPV4.sub(self._address("ipv4", "192.0.2.{}"), text)

    def _numbered(self, kind: str, form: str) -> Callable[[re.Match[str]], str]:
        return lambda match: self._replacement(kind, form, match[0].lower())

    def _address(self, kind: str, form: str) -> Callable[[re.Match[str]], str]:
        """Replace real addresses only: neither versions nor times nor those that every host has."""

        def replaced(match: re.Match[str]) -> str:
            try:
                address = ipaddress.ip_address(match[0])
            except ValueError:
                return match[0]
            if address.is_loopback or address.is_unspecified or address.is_multicast:
                return match[0]
            return self._replacement(kind, form, str(address))

        return replaced

    def _replacement(self, kind: str, form: str, value: str) -> str:
        if (kind, value) not in self.given:
            number = 1 + sum(known == kind for known, _ in self.given)
            self.given[kind, value] = form.format(number)
        return self.given[kind, value]


def _is_serial(value: str) -> bool:
    return len(value) >= SHORTEST_SERIAL and any(letter.isdigit() for letter in value)
