"""Tree captures: files below a folder, told apart by the parts of their paths."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


def listing(capture: Capture, anchor: str) -> Mapping[str, str]:
    """Return path -> content of a tree that always has the file `anchor`: without it nothing was listed.

    Raises Unparsable, so that an empty answer is no sign that the other files are not there.
    """
    files: Mapping[str, str] = json.loads(capture.text)
    if anchor not in files:
        raise Unparsable("the listing is empty")
    return files


def matching(capture: Capture, pattern: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the match and the stripped content of each file whose whole path fits `pattern`.

    Files that could not be read carry another name, and so are not among them.
    """
    for path, content in json.loads(capture.text).items():
        found = re.fullmatch(pattern, path)
        if found:
            yield found, str(content).strip()
