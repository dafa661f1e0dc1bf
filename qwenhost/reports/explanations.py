"""Explanations of checks in words: for the terminal, and as the page docs/checks.md."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby
from os.path import commonpath

from qwenhost.facts.gpus import LISTING, NVML, QUERY, TABLE, XML
from qwenhost.records.explanation import Explanation, Reading, Threshold
from qwenhost.records.finding import Remedy
from qwenhost.records.source import Source

SHORTER = (XML, TABLE, LISTING)
"""Forms that hold no more than `nvidia-smi -q`."""

MARKDOWN_COMMAND = "qwenhost checks --markdown"


def explain_lines(check: Explanation) -> Iterator[str]:
    """Yield what is known of one check, line by line."""
    yield check.id
    yield from (f"  {row}".rstrip() for row in check.why.splitlines())
    for name, rows in _sections(check):
        first, *more = rows
        if more:
            yield f"{name}:"
            yield from (f"  {row}" for row in rows)
        else:
            yield f"{name}: {first}"


def _sections(check: Explanation) -> Iterator[tuple[str, list[str]]]:
    """Yield what stands under the reason: a name with its rows, where there are any."""
    sections = {
        "remedy": [remedy_text(check.remedy)],
        "by hand": [_by_hand(reading) for reading in _handy(check)],
        "reads": [", ".join(reading.source.name for reading in check.readings) or "nothing on the host"],
        "understands in files": [", ".join(check.recognised)] if check.recognised else [],
        "held to": [*map(_threshold, check.thresholds), *_declared(check)],
        "told under": [f"{', '.join(check.consequence_of)}, when that failed"] if check.consequence_of else [],
    }
    yield from ((name, rows) for name, rows in sections.items() if rows)


def remedy_text(remedy: Remedy) -> str:
    """Return the next step."""
    return remedy.text or "none; it depends on what is found"


def by_hand(source: Source) -> str:
    """Return the command that shows on the host what a source reads."""
    if source.kind == "command":
        return shlex.join(source.argv)
    if source.kind == "http":
        return f"curl -s {source.url}"
    if source.kind == "nvml":
        return "NVML"
    return f"cat {source.paths[0]}" if source.kind == "file" else f"grep -H . {_braced(source.paths)}"


def _handy(check: Explanation) -> list[Reading]:
    """Return the readings that somebody would do by hand: of several forms of one output, that which has all."""
    found = {reading.source: reading for reading in check.readings}
    whole = QUERY in found and found[QUERY].look_for
    left_out = {*(SHORTER if whole else ()), *(() if NVML in found and found[NVML].look_for else (NVML,))}
    return [reading for source, reading in found.items() if source not in left_out]


def _by_hand(reading: Reading) -> str:
    what = f": {', '.join(reading.look_for)}" if reading.look_for else ""
    return f"{by_hand(reading.source)}{what}"


def _braced(paths: tuple[str, ...]) -> str:
    """Write paths that differ at their end as the shell's braces do."""
    start = commonpath(paths)
    if len(paths) < 2 or len(start) < 2:
        return " ".join(paths)
    return f"{start}/{{{','.join(path.removeprefix(f'{start}/') for path in paths)}}}"


def _threshold(threshold: Threshold) -> str:
    values = "; ".join(f"{value} ({', '.join(products)})" for value, products in threshold.values.items())
    return f"{threshold.name}: {values}  [{threshold.origin}]"


def _declared(check: Explanation) -> Iterator[str]:
    if check.declared:
        yield f"what is declared: {', '.join(check.declared)}  [inventory or profile]"
    yield from (f"figures of data/{path}, each with its source there" for path in check.data)


def markdown(checks: Iterable[Explanation]) -> str:
    """Return the page of all checks, by subject."""
    rows = [
        "# Checks",
        "",
        f"<!-- Generated: {MARKDOWN_COMMAND} > docs/checks.md -->",
        "",
        "What `qwenhost doctor` asks of a host. A check that passes has seen that its first line holds; one that"
        " could not see it is unknown, never a pass.",
    ]
    for subject, group in groupby(checks, key=lambda check: check.id.partition(".")[0]):
        rows += ["", f"## {subject}"]
        for check in group:
            rows += ["", *_entry(check)]
    return "\n".join(rows) + "\n"


def _entry(check: Explanation) -> Iterator[str]:
    yield f"### {check.id}"
    yield ""
    yield check.why
    yield ""
    for name, rows in _sections(check):
        if name == "by hand":
            yield f"- {name}:"
            yield from (f"  - {_coded(reading)}" for reading in _handy(check))
        else:
            yield f"- {name}: {'; '.join(rows)}"


def _coded(reading: Reading) -> str:
    what = f": {', '.join(reading.look_for)}" if reading.look_for else ""
    return f"`{by_hand(reading.source)}`{what}"
