"""The page: whole in itself, well formed, failures first, with pictures of what was seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from qwenhost.expectations.declared import read_declared
from qwenhost.records.bundle import Bundle
from qwenhost.records.finding import Finding, HostReport, Verdict, by_hardware
from qwenhost.reports import page
from qwenhost.reports.page import pictures
from qwenhost.workflows.doctor import examine_bundle

from ..checks.conftest import Edit, edited, healthy, logged, without  # noqa: F401  (healthy is a fixture)

VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Collects tags and text, and refuses tags that are not closed in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def outline(*reports: HostReport) -> Outline:
    """Return what is on the page of these reports."""
    found = Outline()
    found.feed(page.render(reports))
    assert found.open == []
    return found


NARROW = Finding(
    "pcie.link-width",
    "gpu3 0000:4c:00.0",
    Verdict.FAIL,
    "x8",
    "x16",
    remedy=by_hardware("Reseat the board."),
    evidence="LnkSta: <x8>",
)


def test_a_page_needs_nothing_from_elsewhere() -> None:
    text = page.render([HostReport("lab1", "x", (NARROW,))])
    found = outline(HostReport("lab1", "x", (NARROW,)))
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in found.tags}
    assert not re.findall(r"url\(|https?://|@import", text)


def test_what_was_read_is_text_and_never_markup() -> None:
    odd = Finding(
        "a.b", "<script>alert(1)</script>", Verdict.FAIL, '"><img src=x>', remedy=by_hardware("<b>x</b>")
    )
    found = outline(HostReport("<i>h</i>", "", (odd,), error=""))
    assert not {"script", "img", "i"} & {tag for tag, _ in found.tags}
    assert "<script>alert(1)</script>" in "".join(found.words)


def test_failures_come_first_then_next_steps_then_the_rest() -> None:
    hidden = Finding("gpu.xid", "host", Verdict.UNKNOWN, "dmesg: denied", source="dmesg")
    swap = Finding("host.swap", "host", Verdict.WARN, "on")
    words = "".join(outline(HostReport("lab1", "x", (hidden, swap, NARROW))).words)
    order = [
        "FAIL pcie.link-width",
        "LnkSta: <x8>",
        "Reseat the board.",
        "WARN host.swap",
        "Reseat the board. (pcie.link-width)",
        "dmesg: denied",
    ]
    places = [re.sub(r"\s+", " ", words).index(told) for told in order]
    assert places == sorted(places)


def test_hosts_of_a_fleet_stand_in_a_table_with_the_unreached_ones() -> None:
    reports = [HostReport("lab1", "x", (NARROW,)), HostReport("lab2", "", (), error="lab2: no", hint="up?")]
    words = "".join(outline(*reports).words)
    assert "not examined" in words
    assert "hint: up?" in words


Drawn = Callable[..., dict[str, ET.Element]]


@pytest.fixture
def drawn(healthy: Bundle) -> Drawn:  # noqa: F811
    """Draw the healthy host with some edits; return the pictures by the first word of their titles."""

    def draw(*edits: Edit, lacking: tuple[str, ...] = (), log: tuple[str, ...] = ()) -> dict[str, ET.Element]:
        bundle = without(edited(logged(healthy, *log), *edits), *lacking)
        report = examine_bundle(bundle, read_declared({}, host="h"))
        return {picture.title.partition(":")[0]: ET.fromstring(picture.svg) for picture in pictures(report)}

    return draw


def marked(svg: ET.Element, verdict: str, tag: str = "*") -> list[str]:
    """Return the tooltips of the parts that have this class."""
    return [part.findtext("title") or "" for part in svg.iter() if verdict in (part.get("class") or "").split()]


def test_a_healthy_host_is_drawn_whole_and_without_a_mark(drawn: Drawn) -> None:
    found = drawn()
    assert set(found) == {"NVLink", "PCIe"}
    assert len(found["NVLink"].findall("polyline")) == 28
    assert len(found["NVLink"].findall("circle")) == 8
    names = [part.text for part in found["PCIe"].iter("text")]
    assert [name for name in names if name and name.startswith("gpu")] == [
        f"gpu{number} 0000:{bus}:00.0"
        for number, bus in enumerate(("07", "0b", "48", "4c", "88", "8b", "c8", "cb"))
    ]
    assert {"NUMA node 0", "NUMA node 1"} <= set(names)
    assert not [mark for svg in found.values() for mark in marked(svg, "fail")]


def test_a_narrow_link_is_marked_where_it_is(drawn: Drawn) -> None:
    bus = "/sys/bus/pci/devices/0000:4c:00.0/current_link_width"
    tree = drawn(("pci", f'"{bus}": "16', f'"{bus}": "8'), lacking=("nvml", "nvidia-smi-q"))["PCIe"]
    told = marked(tree, "fail")
    assert any("0000:4c:00.0" in title and "pcie.link-width: x8" in title for title in told)
    assert [part.text for part in tree.iter("text") if "fail" in (part.get("class") or "")] == ["x8"]


def test_a_narrow_port_is_marked_and_not_the_gpus_below_it(drawn: Drawn) -> None:
    port = "/sys/bus/pci/devices/0000:82:00.0/current_link_width"
    tree = drawn(("pci", f'"{port}": "16', f'"{port}": "4'))["PCIe"]
    assert [part.text for part in tree.iter("text") if "warn" in (part.get("class") or "")] == ["x4"]
    assert all(title.startswith("port 0000:82:00.0") for title in marked(tree, "warn") if title)


def test_a_pair_that_is_not_joined_is_marked(drawn: Drawn) -> None:
    cells = ("GPU0\t X \tNV12", "GPU0\t X \tSYS"), ("GPU1\tNV12\t X ", "GPU1\tSYS\t X ")
    ring = drawn(*(("nvidia-smi-topo", old, new) for old, new in cells))["NVLink"]
    assert marked(ring, "fail") == ["GPU0 - GPU1: SYS"]


def test_what_was_not_seen_is_not_drawn(drawn: Drawn) -> None:
    assert set(drawn(lacking=("nvidia-smi-topo",))) == {"PCIe"}
    assert drawn(lacking=("nvidia-smi-topo", "pci")) == {}


def test_a_host_without_a_bundle_has_no_picture() -> None:
    assert pictures(HostReport("h", "", (), error="no")) == []


def test_an_alarm_that_names_a_bus_id_marks_the_gpu_in_the_ring(drawn: Drawn) -> None:
    lost = "NVRM: Xid (PCI:0000:88:00): 79, pid=1, name=x, GPU has fallen off the bus."
    ring = drawn(log=(lost,))["NVLink"]
    assert any(title.startswith("gpu.on-bus") for title in marked(ring, "fail"))
