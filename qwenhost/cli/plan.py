"""`qwenhost plan`: does a model fit, in which layout, with which flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from qwenhost.cli.outputs import STDOUT, put
from qwenhost.records.errors import FAILED, USAGE, QwenhostError

if TYPE_CHECKING:
    from qwenhost.records.fit import Question
    from qwenhost.records.host import Host
    from qwenhost.workflows.serving_plan import Target

POSITIVE = click.IntRange(min=1)
OWN_SERVICE = "host"


@click.command()
@click.argument("hosts", nargs=-1)
@click.option("--model", "model_name", required=True, metavar="NAME", help="qwen3.5-27b, -27b-fp8, or a folder.")
@click.option("-i", "--inventory", type=click.Path(path_type=Path), help="Plan for the hosts of this inventory.")
@click.option("--limit", default="", metavar="PATTERN", help="Only these hosts of the inventory.")
@click.option("--sku", default="", metavar="NAME", help="Plan for boards of this product, without any host.")
@click.option("--gpus", type=POSITIVE, default=1, show_default=True, help="How many boards (with --sku).")
@click.option("--max-model-len", type=POSITIVE, default=32768, show_default=True, help="Tokens of a request.")
@click.option("--prefix-caching/--no-prefix-caching", default=True, show_default=True)
@click.option("--mtp", type=click.IntRange(0, 8), default=0, help="Speculative tokens of the model's MTP layer.")
@click.option("--text-only/--vision", default=True, show_default=True)
@click.option("--kv-cache-dtype", type=click.Choice(["auto", "fp8"]), default="auto", show_default=True)
@click.option("--tensor-parallel", type=POSITIVE, help="Only this size; otherwise all are tried.")
@click.option("--max-num-seqs", type=POSITIVE, help="Requests at the same time.")
@click.option("--max-num-batched-tokens", type=POSITIVE, help="Tokens of one step.")
@click.option(
    "--gpu-memory-utilization", type=click.FloatRange(0, 1, min_open=True), default=0.92, show_default=True
)
@click.option(
    "--kv-cache-gib", type=click.FloatRange(0, min_open=True), help="Pool per GPU; makes the arithmetic exact."
)
@click.option(
    "--calibrate",
    default="",
    metavar="URL|host",
    help="First learn from the service at URL, or from the host's own, what vLLM takes; kept for later plans.",
)
@click.option("--html", metavar="PATH", help="Write one self-contained page with charts to PATH, - for stdout.")
@click.option("--json", "as_json", is_flag=True, help="Write the versioned JSON plan.")
@click.pass_context
def command(
    ctx: click.Context,
    hosts: tuple[str, ...],
    model_name: str,
    inventory: Path | None,
    limit: str,
    sku: str,
    gpus: int,
    max_model_len: int,
    prefix_caching: bool,
    mtp: int,
    text_only: bool,
    kv_cache_dtype: str,
    tensor_parallel: int | None,
    max_num_seqs: int | None,
    max_num_batched_tokens: int | None,
    gpu_memory_utilization: float,
    kv_cache_gib: float | None,
    calibrate: str,
    html: str | None,
    as_json: bool,
) -> None:
    """Say whether a Qwen3.5 model fits this host, HOSTS, an inventory's hosts or boards of --sku, and how.

    Every layout is tried: tensor parallel sizes and MIG profiles. Exit codes: 0 it fits, 1 it does not,
    2 wrong usage.
    """
    from qwenhost.records.fit import Question
    from qwenhost.reports.figures_page import page, plan_part
    from qwenhost.reports.fit_report import fit_json, fit_lines
    from qwenhost.workflows import serving_plan

    if html == STDOUT and as_json:
        raise QwenhostError("--html and --json both want standard output", exit_code=USAGE)
    shape, precision = serving_plan.model_of(model_name)
    question = Question(
        model=shape,
        precision=precision,
        context_tokens=max_model_len,
        prefix_caching=prefix_caching,
        mtp_tokens=mtp,
        vision=not text_only,
        kv_cache_dtype=kv_cache_dtype,
        gpu_memory_utilization=gpu_memory_utilization,
        tensor_parallel=tensor_parallel,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        kv_cache_gib=kv_cache_gib,
    )
    targets = _targets(hosts, inventory, limit, sku, gpus)
    if calibrate:
        _calibrate(question, targets, calibrate)
    fits = {name: serving_plan.plan(question, target) for name, (target, _) in targets.items()}
    if html:
        parts = [plan_part(host, fit, question) for host, fit in fits.items()]
        put(html, page(f"qwenhost plan: {model_name}", parts))
    if as_json:
        click.echo(fit_json(fits))
    elif html != STDOUT:
        for host, fit in fits.items():
            click.echo("\n".join(([f"{host}:"] if host else []) + list(fit_lines(fit, question))))
    ctx.exit(0 if all(fit.chosen for fit in fits.values()) else FAILED)


def _targets(
    names: tuple[str, ...], inventory: Path | None, limit: str, sku: str, gpus: int
) -> dict[str, tuple[Target, Host | None]]:
    """Return what is planned for by host; the name is empty where no host was named."""
    from qwenhost.workflows import hosts, serving_plan

    if sku and (names or inventory):
        raise QwenhostError("either boards or hosts", hint="leave out --sku", exit_code=USAGE)
    if sku:
        return {"": (serving_plan.boards(sku, gpus), None)}
    chosen = hosts.choose(names, inventory, limit)
    if not chosen:
        return {"": (serving_plan.seen(None), None)}
    return {host.name: (serving_plan.seen(host), host) for host in chosen}


def _calibrate(question: Question, targets: dict[str, tuple[Target, Host | None]], where: str) -> None:
    """Measure one service of each target; a URL is one service, so it measures one target."""
    from qwenhost.workflows import calibration, served
    from qwenhost.workflows.requests import UrlFetch
    from qwenhost.workflows.smoke.service import Service

    if where != OWN_SERVICE and len(targets) > 1:
        raise QwenhostError(
            "one URL measures one host", hint="name the host, or --calibrate host", exit_code=USAGE
        )
    for target, host in targets.values():
        if where == OWN_SERVICE:
            name, service = served.first_service(host)
        else:
            name, service = where, Service(UrlFetch(where))
        told = calibration.calibrate(question, target.places[0], target.names[0], service, name)
        path = calibration.keep(told)
        click.echo(
            f"{name}: overhead {told.overhead_gib:.2f} GiB, estimated {told.estimated_gib:.2f}: {path}", err=True
        )
