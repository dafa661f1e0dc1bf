"""How GPUs reach one another, from the matrix of `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command

MATRIX = command(
    "nvidia-smi-topo", "nvidia-smi", "topo", "-m", looks_like=r"^\s*(?:\x1b\[\d*m)?\s*GPU0\s.*(?:GPU\d|Affinity)"
)

CELL = re.compile(r"X|NV\d+|SYS|SOC|NODE|PHB|PXB|PIX|N/A")


@dataclass(frozen=True)
class Topology:
    """GPU pairs with their cell, such as (0, 1): "NV12", and the NUMA nodes that the matrix prints."""

    gpus: tuple[int, ...]
    cells: Mapping[tuple[int, int], str]
    numa: Mapping[int, str]
    cpus: Mapping[int, str]

    def peers(self, gpu: int) -> dict[int, str]:
        """Return the cells of one GPU's row."""
        return {two: cell for (one, two), cell in self.cells.items() if one == gpu}


@parses(MATRIX)
def topology_from_matrix(capture: Capture) -> Topology:
    """Parse the GPU block of the matrix, whether cells are parted by tabs or blanks."""
    lines = plain(capture.text).splitlines()
    head = next((number for number, line in enumerate(lines) if re.match(r"\s*GPU0\b", line)), None)
    if head is None:
        raise Unparsable("no header with GPU0 in it")
    columns = [int(name) for name in re.findall(r"\bGPU(\d+)", lines[head].split("CPU Affinity")[0])]
    labelled = (re.match(r"\s*GPU(\d+)\s+(.*)", line) for line in lines[head + 1 :])
    rows = {int(row[1]): row[2].split() for row in labelled if row}
    if not rows or not columns:
        raise Unparsable("no GPU row in it")
    places = {row: _place(words, lines[head]) for row, words in rows.items()}
    return Topology(
        gpus=tuple(rows),
        cells={(row, column): cell for row in rows for column, cell in _cells(rows[row], columns, row)},
        numa={row: node for row, (_, node) in places.items() if node},
        cpus={row: cpus for row, (cpus, _) in places.items() if cpus},
    )


def _cells(words: list[str], columns: list[int], own: int) -> list[tuple[int, str]]:
    cells = words[: len(columns)]
    if len(cells) < len(columns) or not all(CELL.fullmatch(cell) for cell in cells):
        raise Unparsable(f"row of GPU{own} not understood: {' '.join(words)[:80]}")
    return [(column, cell) for column, cell in zip(columns, cells, strict=True) if column != own]


def _place(words: list[str], header: str) -> tuple[str, str]:
    """Return CPU list and NUMA node of a row, what is left after its cells; empty where nothing is printed."""
    rest = [word for word in words if re.fullmatch(r"\d[\d,-]*", word)]
    cpus = rest[0] if rest and "CPU Affinity" in header else ""
    return cpus, rest[1] if len(rest) > 1 and "NUMA Affinity" in header else ""
