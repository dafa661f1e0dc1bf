"""The machine's own APT sources, in both of their formats, as records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<components>.*)")


@dataclass(frozen=True)
class AptSource:
    """One `deb` line. `signed_by` is a key file, or empty where APT's default key ring signs."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""

    def line(self) -> str:
        """As a line of sources.list."""
        option = f"[signed-by={self.signed_by}] " if self.signed_by else ""
        return " ".join(["deb", f"{option}{self.uri}", self.suite, *self.components])


def machine_sources(etc_apt: Path = Path("/etc/apt")) -> list[AptSource]:
    """All enabled binary sources of this machine."""
    lists = [etc_apt / "sources.list", *sorted((etc_apt / "sources.list.d").glob("*.list"))]
    found = [source for path in lists if path.is_file() for source in from_list(path.read_text())]
    for path in sorted((etc_apt / "sources.list.d").glob("*.sources")):
        found += from_deb822(path.read_text())
    return found


def of_release(sources: list[AptSource], codename: str) -> list[AptSource]:
    """Those of the distribution itself: the suite is its code name, or starts with it and a dash."""
    return [source for source in sources if source.suite.split("-")[0] == codename]


def from_list(text: str) -> Iterator[AptSource]:
    """Parse the one-line format (sources.list); `deb-src` lines are left out."""
    for line in text.splitlines():
        found = ONE_LINE.fullmatch(line.split("#", 1)[0].strip())
        if found:
            signed = re.search(r"signed-by=(\S+)", found["options"] or "")
            components = tuple(found["components"].split())
            yield AptSource(found["uri"], found["suite"], components, signed[1] if signed else "")


def from_deb822(text: str) -> Iterator[AptSource]:
    """Parse the deb822 format (*.sources); a key given inline is left to APT's default key ring."""
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(_fields(stanza))
        enabled = fields.get("enabled", "yes").lower() not in ("no", "false")
        if "deb" not in fields.get("types", "").split() or not enabled:
            continue
        signed_by = fields.get("signed-by", "")
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                components = tuple(fields.get("components", "").split())
                yield AptSource(uri, suite, components, signed_by if signed_by.startswith("/") else "")


def _fields(stanza: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in stanza.splitlines() if not line.startswith("#")]
    for found in re.finditer(r"^([A-Za-z-]+):(.*(?:\n[ \t].*)*)", "\n".join(lines), re.MULTILINE):
        yield found[1].lower(), found[2].strip()
