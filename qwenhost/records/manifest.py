"""What a run would fetch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class FetchedFile:
    """One file that a host fetches. `kind`: driver, key, wheel or model.

    `url` is a URL, or a path where the file is on a disk already. `size_bytes` 0, `sha256` and `version` empty:
    not told by any index.
    """

    kind: str
    name: str
    version: str = ""
    url: str = ""
    size_bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True)
class Manifest:
    """`files`: each with the hosts that fetch it. `elsewhere`: packages that the distribution brings, by host."""

    files: dict[FetchedFile, tuple[str, ...]]
    elsewhere: dict[str, tuple[str, ...]]
