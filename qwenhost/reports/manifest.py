"""A manifest of files to fetch, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from qwenhost.records.manifest import FetchedFile, Manifest

SCHEMA = 1
MIB = 1024 * 1024


def lines(manifest: Manifest) -> Iterator[str]:
    """Yield a line per file, and what comes from elsewhere."""
    for file in manifest.files:
        yield _line(file)
    if manifest.elsewhere:
        yield f"From the distribution: {', '.join(manifest.elsewhere)}, and the headers of each kernel"
    total = sum(file.size_bytes for file in manifest.files)
    unknown = sum(not file.sha256 for file in manifest.files)
    yield f"{len(manifest.files)} files, {total / MIB:.1f} MiB of known size, {unknown} without a checksum"


def _line(file: FetchedFile) -> str:
    parts = (
        file.kind,
        f"{file.name} {file.version}".strip(),
        f"{file.size_bytes} bytes" if file.size_bytes else "",
    )
    checksum = f"sha256:{file.sha256}" if file.sha256 else "no checksum known"
    return "  ".join(filter(None, (*parts, checksum, file.url)))


def render(manifest: Manifest) -> str:
    """Return the versioned JSON."""
    files = [{**asdict(file), "hosts": list(hosts)} for file, hosts in manifest.files.items()]
    elsewhere = [{"name": name, "hosts": list(hosts)} for name, hosts in manifest.elsewhere.items()]
    return json.dumps({"schema": SCHEMA, "files": files, "from_distribution": elsewhere}, indent=1)
