"""Write a file whole or not at all: who reads it meanwhile sees the old one."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

PUBLIC = 0o644
PRIVATE = 0o600


def write_whole(path: Path, text: str, mode: int = PUBLIC) -> None:
    """Replace `path` by a file of this content; a device or pipe is written to as it is. Raises OSError."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
