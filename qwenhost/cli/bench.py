"""`qwenhost bench`: how fast a served model is, with vLLM's own load generator."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qwenhost.cli.outputs import STDOUT, put
from qwenhost.records.errors import FAILED, USAGE, QwenhostError

if TYPE_CHECKING:
    from qwenhost.workflows.bench import Target

POSITIVE = click.IntRange(min=1)


@click.command()
@click.argument("targets", nargs=-1, metavar="URL | [HOST]...")
@click.option("-i", "--inventory", type=click.Path(path_type=Path), help="Inventory that declares the HOSTs.")
@click.option("--limit", default="", metavar="PATTERN", help="Only these hosts of the inventory.")
@click.option("--model", default="", help="Served name (URL only).")
@click.option("--tokenizer", default="", metavar="PATH", help="The model's folder (URL only).")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="File that holds the API key (URL only).")
@click.option(
    "--vllm", default="vllm", show_default=True, metavar="COMMAND", help="How vLLM is started (URL only)."
)
@click.option("--concurrency", default="1,8,32,128", show_default=True, metavar="N,N,...", help="The ladder.")
@click.option("--input-tokens", type=POSITIVE, default=512, show_default=True)
@click.option("--output-tokens", type=POSITIVE, default=128, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the results to this file.")
@click.option("--baseline", type=click.Path(path_type=Path), help="Compare with results of an earlier run.")
@click.option("--tolerance", type=click.FloatRange(0, 1), default=0.1, show_default=True, help="Loss that holds.")
@click.option(
    "--plan", type=click.Path(path_type=Path), help="`qwenhost plan --json`: compare with its estimates."
)
@click.option(
    "--compare-defaults",
    is_flag=True,
    help="Also run each instance with vLLM's defaults, and tell what its own options gain. Stops it twice.",
)
@click.option("--keep", multiple=True, metavar="OPTION", help="Leave the defaults this option of the instance.")
@click.option("--yes", is_flag=True, help="Do not ask before instances are stopped.")
@click.option("--html", metavar="PATH", help="Write one self-contained page with charts to PATH, - for stdout.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    targets: tuple[str, ...],
    inventory: Path | None,
    limit: str,
    model: str,
    tokenizer: str,
    api_key_file: Path | None,
    vllm: str,
    concurrency: str,
    input_tokens: int,
    output_tokens: int,
    output: Path | None,
    baseline: Path | None,
    tolerance: float,
    plan: Path | None,
    compare_defaults: bool,
    keep: tuple[str, ...],
    yes: bool,
    html: str | None,
    as_json: bool,
) -> None:
    """Measure the model served at URL, or the instances of an inventory's hosts, over a ladder of concurrencies.

    Runs `vllm bench serve` beside the service, after a burst that is not counted. Exit code 1 tells that requests
    failed or, with --baseline, that throughput fell by more than the tolerance.

    --compare-defaults measures each instance with its own options, twice with vLLM's defaults, and again with its
    own. It serves nobody else meanwhile; it has its own options again afterwards, also when this is killed.
    """
    from qwenhost.cli import bench_defaults as defaults
    from qwenhost.reports.bench_text import ladder_lines
    from qwenhost.reports.figures_page import ladder_part, page
    from qwenhost.workflows import bench, hosts
    from qwenhost.workflows.promised import roofline_in

    if html == STDOUT and as_json:
        raise QwenhostError("--html and --json both want standard output", exit_code=USAGE)
    ladder = _ladder(concurrency)
    if compare_defaults:
        if inventory is None or baseline or plan or html:
            raise QwenhostError(
                "--compare-defaults wants -i INVENTORY, and goes with no --baseline, --plan or --html",
                exit_code=USAGE,
            )
        asked = {"concurrencies": ladder, "input_tokens": input_tokens, "output_tokens": output_tokens}
        ctx.exit(defaults.compare(hosts.choose(targets, inventory, limit), asked, keep, yes, output, as_json))
    before = bench.load_saved(baseline) if baseline else {}
    roofline = roofline_in(plan) if plan else None
    measured, parts, bad = [], [], False
    for target in _targets(targets, inventory, limit, (model, tokenizer, vllm), api_key_file):
        load = replace(target.load, concurrencies=ladder, input_tokens=input_tokens, output_tokens=output_tokens)
        told = bench.measure(replace(target, load=load), _say)
        told = bench.beside(told, roofline) if roofline else told
        earlier = before.get(told.service)
        compared = bench.compare(told, earlier, tolerance) if earlier else ()
        bad = bad or any(step.failed for step in told.steps) or any(not one.holds for one in compared)
        measured.append(told)
        parts.append(ladder_part(told, compared))
        if not as_json and html != STDOUT:
            click.echo("\n".join(ladder_lines(told, compared)))
    if output:
        bench.save(measured, output)
    if html:
        put(html, page("qwenhost bench", parts))
    if as_json:
        click.echo(bench.to_json(measured))
    ctx.exit(FAILED if bad else 0)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _ladder(text: str) -> tuple[int, ...]:
    try:
        steps = tuple(int(word) for word in text.split(","))
    except ValueError:
        steps = ()
    if not steps or min(steps) < 1:
        raise QwenhostError(
            f"--concurrency {text!r}: not a list of numbers", hint="such as 1,8,32", exit_code=USAGE
        )
    return steps


def _targets(
    names: tuple[str, ...],
    inventory: Path | None,
    limit: str,
    service: tuple[str, str, str],
    api_key_file: Path | None,
) -> tuple[Target, ...]:
    """Return what is measured; `service` is model, tokenizer and command of a URL."""
    from qwenhost.workflows import bench, hosts

    model, tokenizer, vllm = service
    if inventory is not None:
        return bench.on_hosts(hosts.choose(names, inventory, limit))
    if len(names) != 1 or not model or not tokenizer:
        raise QwenhostError(
            "one URL with --model and --tokenizer, or -i INVENTORY",
            hint="such as qwenhost bench http://127.0.0.1:8000 --model NAME --tokenizer /srv/models/NAME",
            exit_code=USAGE,
        )
    key_file = str(api_key_file) if api_key_file else ""
    return (bench.at_url(names[0], model, tokenizer, shlex.split(vllm), key_file),)
