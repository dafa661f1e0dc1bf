"""A picture of how the GPUs reach one another: a ring of GPUs, a line for each pair that NVLink joins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from qwenhost.facts.nvlink import GpuLinks, NvLinks
from qwenhost.facts.topology import Topology
from qwenhost.reports import svg
from qwenhost.reports.marks import Marks
from qwenhost.reports.svg import Point

RADIUS = 150.0
DISC = 24.0
MARGIN = 16.0
CENTRE = RADIUS + DISC + MARGIN

CHECKS = "nvlink."


def draw(matrix: Topology, links: NvLinks | None, marks: Marks) -> str:
    """Return the picture; empty for fewer than two GPUs."""
    if len(matrix.gpus) < 2:
        return ""
    places = dict(zip(matrix.gpus, _ring(len(matrix.gpus)), strict=True))
    kinds = ", ".join(sorted(set(matrix.cells.values())))
    parts = [*_pairs(matrix, places, marks), *_gpus(places, links, marks)]
    return svg.picture(2 * CENTRE, 2 * CENTRE, f"{len(places)} GPUs, joined by {kinds}", parts)


def _ring(count: int) -> list[Point]:
    angles = [2 * math.pi * place / count - math.pi / 2 for place in range(count)]
    return [(CENTRE + RADIUS * math.cos(angle), CENTRE + RADIUS * math.sin(angle)) for angle in angles]


def _pairs(matrix: Topology, places: dict[int, Point], marks: Marks) -> Iterator[ET.Element]:
    """Yield the lines, those with an alarm last, so that nothing hides them."""
    pairs = [(pair, cell) for pair, cell in matrix.cells.items() if pair[0] < pair[1] and set(pair) <= set(places)]
    for pair, cell in sorted(pairs, key=lambda item: _faulty(item[0], marks)):
        joined = "joined" if cell.startswith("NV") else "apart"
        style = f"{joined} {svg.mark(marks.verdict(*_told_of(pair, marks), of=CHECKS))}"
        yield svg.line([places[gpu] for gpu in pair], style, f"GPU{pair[0]} - GPU{pair[1]}: {cell}")


def _faulty(pair: tuple[int, int], marks: Marks) -> bool:
    return marks.verdict(*_told_of(pair, marks), of=CHECKS) is not None


def _told_of(pair: tuple[int, int], marks: Marks) -> list[object]:
    """Return the parts whose alarms are about a pair: itself, or a GPU that is cut off from every peer."""
    alone = [
        gpu for gpu in pair if any("every peer" in finding.subject for finding in marks.about(gpu, of=CHECKS))
    ]
    return [pair, *alone]


def _gpus(places: dict[int, Point], links: NvLinks | None, marks: Marks) -> Iterator[ET.Element]:
    by_index = {gpu.index: gpu for gpu in links.gpus} if links else {}
    for gpu, place in places.items():
        names = (gpu, by_index[gpu].bus_id) if gpu in by_index else (gpu,)
        style = f"device {svg.mark(marks.verdict(*names))}"
        yield svg.disc(place, DISC, style, marks.title(*names) or f"GPU{gpu}")
        yield svg.text((place[0], place[1] - 1), f"GPU{gpu}", "name", middle=True)
        yield svg.text((place[0], place[1] + 12), _links_up(by_index.get(gpu)), "small", middle=True)


def _links_up(gpu: GpuLinks | None) -> str:
    if gpu is None:
        return ""
    return f"{len(gpu.up)}/{len(gpu.links)}" if gpu.links else gpu.silence
