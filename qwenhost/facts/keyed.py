"""Tree captures: files below a folder, told apart by the parts of their paths."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from qwenhost.records.bundle import Capture


def matching(capture: Capture, pattern: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the match and the stripped content of each file whose whole path fits `pattern`.

    Files that could not be read carry another name, and so are not among them.
    """
    for path, content in json.loads(capture.text).items():
        found = re.fullmatch(pattern, path)
        if found:
            yield found, str(content).strip()
