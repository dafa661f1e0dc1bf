"""Parts of a picture: plain SVG with a tooltip on each part.

Colours come from the page's style sheet; the attributes here are for readers that do not apply it to pictures.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from qwenhost.records.finding import Verdict

Point = tuple[float, float]


def picture(width: float, height: float, label: str, parts: Iterable[ET.Element]) -> str:
    """Return an SVG element as text; `label` is what a screen reader says."""
    box = f"0 0 {width:.0f} {height:.0f}"
    told = {"role": "img", "aria-label": label, "fill": "none", "stroke": "currentColor"}
    root = ET.Element("svg", {"viewBox": box, "width": f"{width:.0f}", **told})
    root.extend(parts)
    return ET.tostring(root, encoding="unicode")


def mark(verdict: Verdict | None) -> str:
    """Return the class of a part: the verdict where it is an alarm."""
    return verdict.value if verdict in (Verdict.FAIL, Verdict.WARN) else "calm"


def line(points: Iterable[Point], style: str, title: str = "") -> ET.Element:
    """Draw through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return _titled(ET.Element("polyline", {"points": path, "class": style}), title)


def box(at: Point, size: Point, style: str, title: str = "") -> ET.Element:
    """Draw a rectangle from its upper left corner."""
    (x, y), (width, height) = at, size
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}", "rx": "3"}
    return _titled(ET.Element("rect", {**place, "class": style}), title)


def disc(at: Point, radius: float, style: str, title: str = "") -> ET.Element:
    """Draw a filled circle."""
    place = {"cx": f"{at[0]:.1f}", "cy": f"{at[1]:.1f}", "r": f"{radius:.1f}"}
    return _titled(ET.Element("circle", {**place, "class": style}), title)


def text(at: Point, words: str, style: str = "", middle: bool = False) -> ET.Element:
    """Write words, from a point on or around it."""
    place = {"x": f"{at[0]:.1f}", "y": f"{at[1]:.1f}", "font-size": "11"}
    attributes = {**place, "class": style, "fill": "currentColor", "stroke": "none"}
    element = ET.Element("text", {**attributes, **({"text-anchor": "middle"} if middle else {})})
    element.text = words
    return element


def _titled(element: ET.Element, title: str) -> ET.Element:
    if title:
        ET.SubElement(element, "title").text = title
    return element
