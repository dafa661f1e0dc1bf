"""Charts of plans and measurements, and the page around them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

from click.testing import CliRunner

from qwenhost.cli.plan import command
from qwenhost.records.load import Ladder, Step
from qwenhost.reports.chart import HEIGHT, WIDTH, Series, chart
from qwenhost.reports.figures_page import ladder_part, page

FALLING = Series("8 x (1 GPU)", [(4096, 120.0), (32768, 15.0), (262144, 2.0)])


def discs(picture: str) -> list[tuple[float, float]]:
    return [(float(disc.attrib["cx"]), float(disc.attrib["cy"])) for disc in ET.fromstring(picture).iter("circle")]


def test_points_are_inside_and_in_their_order() -> None:
    places = discs(chart("x", "tokens", "requests", [FALLING]))
    assert places == sorted(places)
    assert [y for _, y in places] == sorted(y for _, y in places)
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in places)


def test_axes_are_logarithmic() -> None:
    places = discs(chart("x", "a", "b", [Series("one", [(1, 1.0), (10, 10.0), (100, 100.0)])]))
    assert places[1][0] - places[0][0] == places[2][0] - places[1][0]


def test_one_point_and_none() -> None:
    assert len(discs(chart("x", "a", "b", [Series("one", [(10, 10.0)])]))) == 1
    assert chart("x", "a", "b", []) == ""


def test_names_of_lines_do_not_cover_each_other() -> None:
    lines = [Series(name, [(1, 5.0), (9, 5.0)]) for name in "ABCD"]
    texts = [text for text in ET.fromstring(chart("x", "a", "b", lines)).iter("text") if text.text in "ABCD"]
    heights = sorted(float(text.attrib["y"]) for text in texts)
    assert all(below - above >= 12 for above, below in pairwise(heights))


def step(concurrency: int, rate: float) -> Step:
    return Step(concurrency, 8, 0, rate, rate * 5, 50.0, 90.0 * concurrency, 6.0, 7.0)


def test_page_of_a_ladder_has_its_charts_and_no_markup_of_others() -> None:
    steps = (step(1, 160.0), step(32, 2900.0), step(128, 0.0))
    ladder = Ladder("<b>lab1</b>", "m", "0.32.0", 512, 128, "2026-12-02T00:00:00Z", steps)
    text = page("bench", [ladder_part(ladder, ())])
    assert text.count("<svg") == 3
    assert "<b>lab1" not in text
    assert "32 at a time: 2,900 tokens/s, 6.0 ms" in text


def test_plan_writes_a_page_beside_its_text(tmp_path: Path) -> None:
    path = tmp_path / "plan.html"
    arguments = ["--model", "qwen3.5-9b", "--sku", "a100-sxm4-40gb", "--gpus", "2"]
    done = CliRunner().invoke(command, [*arguments, "--html", str(path), "--json"], catch_exceptions=False)
    assert json.loads(done.output)["chosen"]
    text = path.read_text()
    assert "2 x (1 GPU), 4,096" in text
    assert "vllm serve MODEL" in text
    alone = CliRunner().invoke(command, [*arguments, "--html", "-"], catch_exceptions=False)
    assert alone.output.startswith("<!doctype html>")
