"""What people and tools put before every line of an output when they pass it on, taken off again."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"^ ?>", re.MULTILINE)

_HOST = re.compile(r"^\[?[\w.-]{1,64}(?:\]| \||:)(?: |$)")
"""pdsh, ansible, parallel-ssh."""

_COVERS = (
    _HOST,
    re.compile(r"^[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?: |$)"),  # ts
    re.compile(r"^\d{4}-\d\d-\d\d[T ][\d:.,]{8,15}(?:Z|[+-]\d\d:?\d\d)? "),  # docker logs -t, ts with a format
    re.compile(r"^ *\d{1,6}[:\t]"),  # cat -n, grep -n ""
)

FEWEST_LINES = 3

FEWEST_WRAPPED = 2

TERMINAL_COLUMNS = 80
"""Only this width is undone: a log or a matrix whose longest lines have exactly it was copied off a terminal."""


def unquoted(text: str) -> str:
    """Return a mail's or a comment's quotation without its marks; other text as it is."""
    if not re.match(r"\s*>", text):
        return text
    if any(line.strip() and not line.lstrip().startswith(">") for line in text.splitlines()):
        return text
    bare = _QUOTED.sub("", text)
    spaced = all(line[0] == " " for line in bare.splitlines() if line)
    return re.sub(r"^ ", "", bare, flags=re.MULTILINE) if spaced else bare


def unwrapped(text: str) -> str:
    """Return what a terminal of 80 columns broke into lines in one piece again; other text as it is."""
    lines = text.splitlines()
    if max(map(len, lines), default=0) != TERMINAL_COLUMNS or sum(map(_wrapped, lines)) < FEWEST_WRAPPED:
        return text
    return "".join(line if _wrapped(line) else f"{line}\n" for line in lines)


def _wrapped(line: str) -> bool:
    """Tell a line that goes on in the next one from a row of a table and from a rule."""
    return len(line) == TERMINAL_COLUMNS and line[0] not in "+|" and len({*line}) > 2


def uncovered(text: str) -> str:
    """Return `text` without the blanks, the stamp, or the one host name that all of its lines begin with.

    Text without such a cover is returned as it is.
    """
    lines = text.splitlines()
    told = [line for line in lines if line.strip()]
    if len(told) < FEWEST_LINES:
        return text
    for cover in _COVERS:
        heads = [found[0].rstrip() if (found := cover.match(line)) else "" for line in told]
        if all(heads) and (cover is not _HOST or len(set(heads)) == 1):
            return "\n".join(cover.sub("", line, count=1) for line in lines) + "\n"
    margin = min(len(line) - len(line.lstrip()) for line in told)
    return "\n".join(line[margin:] for line in lines) + "\n" if margin else text
