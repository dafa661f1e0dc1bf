"""The report as one page that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from qwenhost import __version__
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.nvlink import NvLinks
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.registry import Seen, read
from qwenhost.facts.topology import Topology
from qwenhost.records.finding import HostReport, Verdict
from qwenhost.reports import nvlink_picture, pcie_picture
from qwenhost.reports.grouping import alarms, consequences, unseen
from qwenhost.reports.marks import marks
from qwenhost.reports.matrix import matrix
from qwenhost.reports.next_steps import next_steps
from qwenhost.reports.since_lines import since_rows
from qwenhost.reports.text import CELLS, COUNTS

TEMPLATE = "page.html.j2"

Fact = TypeVar("Fact")


@dataclass(frozen=True)
class Picture:
    """`title` says what it shows."""

    title: str
    svg: Markup


def render(reports: Sequence[HostReport], *, again: str = "qwenhost provision") -> str:
    """Return the page; `again` is the command that would run the roles."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(TEMPLATE).render(
        reports=reports,
        version=__version__,
        matrix=matrix(reports),
        steps=list(next_steps(reports, again)),
        names=CELLS,
        counts=COUNTS,
        alarms=lambda report: alarms(report, Verdict.FAIL, Verdict.WARN),
        notes=lambda report: alarms(report, Verdict.NOTE),
        consequences=consequences,
        unseen=unseen,
        changes=lambda report: list(since_rows(report.since)) if report.since else [],
        pictures=pictures,
    )


def pictures(report: HostReport) -> list[Picture]:
    """Return what can be drawn of a host from what was seen of it."""
    found, pci, matrix_seen = marks(report), _fact(report, PciDevices), _fact(report, Topology)
    drawn = {
        "NVLink: how the GPUs reach one another": nvlink_picture.draw(matrix_seen, _fact(report, NvLinks), found)
        if matrix_seen
        else "",
        "PCIe: from the processors to the GPUs": pcie_picture.draw(pci, _fact(report, Gpus), found) if pci else "",
    }
    return [Picture(title, Markup(svg)) for title, svg in drawn.items() if svg]


def _fact(report: HostReport, fact: type[Fact]) -> Fact | None:
    answer = read(report.bundle, fact) if report.bundle else None
    return answer.fact if isinstance(answer, Seen) else None
