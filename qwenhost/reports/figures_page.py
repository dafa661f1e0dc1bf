"""A page of figures and charts, for plans and measurements, that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from qwenhost import __version__
from qwenhost.records.fit import Fit, Question
from qwenhost.records.load import Comparison, Ladder
from qwenhost.reports.bench_text import ladder_lines
from qwenhost.reports.chart import Series, chart
from qwenhost.reports.fit_report import asked_of, fit_lines

TEMPLATE = "figures.html.j2"
MOST_LINES = 6
"""Layouts in one chart; more cannot be told apart."""


@dataclass(frozen=True)
class Part:
    """One host's or service's part. `charts`: caption -> SVG, empty where there is none."""

    heading: str
    text: str
    charts: Mapping[str, str] = field(default_factory=dict)

    @property
    def pictures(self) -> list[tuple[str, Markup]]:
        """Captions and pictures; their text was escaped when they were drawn."""
        return [(caption, Markup(picture)) for caption, picture in self.charts.items()]


def page(title: str, parts: Sequence[Part]) -> str:
    """Return the page."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(TEMPLATE).render(title=title, parts=parts, version=__version__)


def plan_part(host: str, fit: Fit, question: Question) -> Part:
    """Return a plan with the capacity of its layouts."""
    chosen = [fit.chosen] if fit.chosen else []
    shown = [*chosen, *(one for one in fit.candidates if one is not fit.chosen)][:MOST_LINES]
    series = [Series(one.layout, [point for point in one.capacity if point[1] > 0]) for one in shown]
    picture = chart("capacity by context", "tokens of a request", "requests in a replica", series)
    charts = {"Requests that one replica's KV cache holds, by tokens of each; the chosen layout first": picture}
    return Part(host or asked_of(question), "\n".join(fit_lines(fit, question)), charts)


def ladder_part(ladder: Ladder, against: Sequence[Comparison]) -> Part:
    """Return a measured service: its throughput against what clients wait."""
    captions = {
        "Output tokens/s against the median time per output token": "tpot_median_ms",
        "Output tokens/s against the 99th percentile of the time to the first token": "ttft_p99_ms",
    }
    charts = {"Output tokens/s against requests at a time": _rates(ladder)}
    charts |= {caption: _latency(ladder, name) for caption, name in captions.items()}
    return Part(ladder.service, "\n".join(ladder_lines(ladder, against)), charts)


def _rates(ladder: Ladder) -> str:
    """Draw the measured rates and, where a plan told it, the estimate over them."""
    steps = [step for step in ladder.steps if step.output_tokens_per_s > 0]
    lines = [Series("measured", [(step.concurrency, step.output_tokens_per_s) for step in steps])] if steps else []
    if ladder.roofline:
        ceilings = zip(ladder.steps, ladder.roofline, strict=False)
        lines.append(Series("estimated", [(step.concurrency, ceiling) for step, ceiling in ceilings]))
    return chart("throughput", "requests at a time", "output tokens/s", lines)


def _latency(ladder: Ladder, name: str) -> str:
    steps = [step for step in ladder.steps if step.output_tokens_per_s > 0 and getattr(step, name) > 0]
    points = [(step.output_tokens_per_s, float(getattr(step, name))) for step in steps]
    labels = [
        f"{step.concurrency} at a time: {x:,.0f} tokens/s, {y:,.1f} ms"
        for step, (x, y) in zip(steps, points, strict=True)
    ]
    return chart(name, "output tokens/s", "ms", [Series(ladder.service, points, labels)] if points else [])
