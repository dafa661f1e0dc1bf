"""A line chart over logarithmic axes: figures of plans and measurements span several powers of two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import ceil, floor, log10
from xml.etree import ElementTree as ET

from qwenhost.reports import svg

WIDTH, HEIGHT = 640.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 170.0, 16.0, 40.0
STYLES = ("joined", "calm", "note", "apart")
"""Of the page's style sheet; lines of the same style are told apart by their names."""


@dataclass(frozen=True)
class Series:
    """`points` are (x, y), both above zero, in their order; `labels` stand in their tooltips."""

    name: str
    points: Sequence[tuple[float, float]]
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class _Axis:
    """Maps values to the picture; `low` and `high` are powers of ten."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> tuple[float, ...]:
        return tuple(10.0**power for power in range(int(self.low), int(self.high) + 1))


def chart(label: str, x_label: str, y_label: str, series: Sequence[Series]) -> str:
    """Return the SVG; empty where no series has a point."""
    points = [point for one in series for point in one.points]
    if not points:
        return ""
    x = _axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    y = _axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
    names = (svg.text((LEFT, HEIGHT - 6), x_label), svg.text((4, 11), y_label))
    lines = (part for one, style in zip(series, cycle(STYLES), strict=False) for part in _line(one, style, x, y))
    return svg.picture(WIDTH, HEIGHT, label, [*_grid(x, y), *lines, *_legend(series, x, y), *names])


def _axis(values: Sequence[float], start: float, end: float) -> _Axis:
    low = floor(log10(min(values)))
    return _Axis(low, max(ceil(log10(max(values))), low + 1), start, end)


def _grid(x: _Axis, y: _Axis) -> Iterator[ET.Element]:
    for value in x.ticks:
        yield svg.line([(x.at(value), y.start), (x.at(value), y.end)], "apart")
        yield svg.text((x.at(value), y.start + 14), f"{value:,g}", "small", middle=True)
    for value in y.ticks:
        yield svg.line([(x.start, y.at(value)), (x.end, y.at(value))], "apart")
        yield svg.text((4, y.at(value) + 4), f"{value:,g}", "small")


def _line(series: Series, style: str, x: _Axis, y: _Axis) -> Iterator[ET.Element]:
    places = [(x.at(across), y.at(up)) for across, up in series.points]
    yield svg.line(places, style, series.name)
    labels = series.labels or [f"{across:,g}: {up:,.1f}" for across, up in series.points]
    for place, label in zip(places, labels, strict=True):
        yield svg.disc(place, 3, style, f"{series.name}, {label}")


def _legend(series: Sequence[Series], x: _Axis, y: _Axis) -> Iterator[ET.Element]:
    """Write each name beside the end of its line, apart from the others."""
    taken = y.end - 14
    for one in sorted(series, key=lambda one: y.at(one.points[-1][1])):
        taken = max(y.at(one.points[-1][1]) + 4, taken + 13)
        yield svg.text((x.end + 8, taken), one.name)
