"""Measure a served model with vLLM's own load generator, over a ladder of concurrencies."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from qwenhost.expectations.declared import read_declared
from qwenhost.facts.vllm_metrics import METRICS, metrics_of_port
from qwenhost.records.bundle import Capture
from qwenhost.records.desired import Serving
from qwenhost.records.errors import BadData, QwenhostError, Unparsable
from qwenhost.records.host import Host
from qwenhost.records.load import Comparison, Ladder, Step
from qwenhost.serving.roofline import Roofline
from qwenhost.workflows.requests import Fetch, UrlFetch
from qwenhost.workflows.served import KEY_FILE, HostFetch, SendHttp
from qwenhost.workflows.served import over_ssh as http_over_ssh

SCHEMA = 1
PROGRAM = "/opt/qwenhost/vllm/current/bin/vllm"
REQUESTS_PER_CLIENT = 4
LEAST_REQUESTS = 8
SECONDS = 3600.0

Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Does the act `bench`: a request in, {"result"} out. Raises OSError where it failed."""


@dataclass(frozen=True)
class Load:
    """What is asked of a service, and of which. Lengths in tokens."""

    service: str
    base_url: str
    model: str
    tokenizer: str
    concurrencies: tuple[int, ...] = (1, 8, 32, 128)
    input_tokens: int = 512
    output_tokens: int = 128
    program: tuple[str, ...] = (PROGRAM,)
    key_file: str = ""

    def request(self, concurrency: int) -> dict[str, Any]:
        """Return the act's request of one step; its prompts are new ones, which no cache knows."""
        return {
            "seed": secrets.randbits(31),
            "program": list(self.program),
            "base_url": self.base_url,
            "model": self.model,
            "tokenizer": self.tokenizer,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "concurrency": concurrency,
            "requests": max(LEAST_REQUESTS, REQUESTS_PER_CLIENT * concurrency),
            "key_file": self.key_file,
        }


@dataclass(frozen=True)
class Target:
    """A service to measure: how the load generator is run beside it, and how it is asked for its version."""

    load: Load
    run: Run
    fetch: Fetch


def at_url(url: str, model: str, tokenizer: str, program: Sequence[str], key_file: str = "") -> Target:
    """Return the service at a base URL, measured from this machine. Raises QwenhostError for a bad URL."""
    load = Load(url, url.rstrip("/"), model, tokenizer, program=tuple(program), key_file=key_file)
    return Target(load, here, UrlFetch(url))


def on_hosts(hosts: Sequence[Host]) -> tuple[Target, ...]:
    """Return the declared instances of hosts, measured from the hosts themselves."""
    return tuple(target for host in hosts for target in _of_host(host))


def _of_host(host: Host) -> Iterator[Target]:
    declared = read_declared(host.variables, host=host.name, where=host.origin)
    return of_declared(host.name, declared.serving, over_ssh(host), http_over_ssh(host))


def of_declared(host: str, serving: Serving | None, run: Run, send: SendHttp) -> Iterator[Target]:
    """Yield the declared instances of a host that is reached by `run` and `send`."""
    for instance in serving.instances if serving else ():
        load = Load(
            service=f"{host} vllm@{instance.name}",
            base_url=f"http://127.0.0.1:{instance.port}",
            model=serving.model_name if serving else "",
            tokenizer=serving.model_path if serving else "",
            key_file=KEY_FILE,
        )
        yield Target(load, run, HostFetch(load.base_url, send))


def measure(target: Target, say: Callable[[str], None]) -> Ladder:
    """Climb the ladder, after a burst at its top that is not counted: kernels are tuned at their first shapes."""
    load = target.load
    top = max(load.concurrencies)
    say(f"{load.service}: warming up with {top} requests at a time")
    _step(target, top)
    steps = []
    for concurrency in sorted(set(load.concurrencies)):
        steps.append(_step(target, concurrency))
        say(f"{load.service}: {concurrency} at a time: {steps[-1].output_tokens_per_s:.0f} output tokens/s")
    measured_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    version = _version(target.fetch)
    return Ladder(
        load.service, load.model, version, load.input_tokens, load.output_tokens, measured_at, tuple(steps)
    )


def _step(target: Target, concurrency: int) -> Step:
    load, before = target.load, _prompt_tokens(target.fetch)
    try:
        result = target.run(load.request(concurrency))["result"]
        return Step(
            concurrency=concurrency,
            requests=int(result["completed"]),
            failed=int(result.get("failed", 0)),
            output_tokens_per_s=float(result["output_throughput"]),
            total_tokens_per_s=float(result["total_token_throughput"]),
            ttft_median_ms=float(result["median_ttft_ms"]),
            ttft_p99_ms=float(result["p99_ttft_ms"]),
            tpot_median_ms=float(result["median_tpot_ms"]),
            tpot_p99_ms=float(result["p99_tpot_ms"]),
            cached_share=_cached_share(before, _prompt_tokens(target.fetch)),
        )
    except OSError as error:
        raise QwenhostError(f"{load.service}: {error}", hint="see qwenhost smoke") from error
    except (KeyError, TypeError, ValueError) as error:
        raise QwenhostError(f"{load.service}: the load generator's result lacks {error}") from error


def _prompt_tokens(fetch: Fetch) -> tuple[int, int] | None:
    """Return tokens of prompts looked up and found in the prefix cache so far; None where it is not told."""
    try:
        page = Capture(METRICS.name, "ok", fetch("GET", "/metrics", {}, "", 10).body)
        (told,) = metrics_of_port(page).values()
    except (OSError, Unparsable):
        return None
    return None if told.prompts_asked is None else (told.prompts_asked, told.prompts_hit or 0)


def _cached_share(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    if before is None or after is None:
        return None
    asked, found = after[0] - before[0], after[1] - before[1]
    return found / asked if asked else 0.0


def _version(fetch: Fetch) -> str:
    try:
        return str(json.loads(fetch("GET", "/version", {}, "", 10).body)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def here(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Do the act on this machine. Raises OSError."""
    from qwenhost.hands import bench
    from qwenhost.hands.answer import Refused

    try:
        return bench.run(dict(request))
    except Refused as error:
        raise OSError(str(error)) from error


def over_ssh(host: Host) -> Run:
    """Return a way to do the act on a host that is reached by SSH."""
    from qwenhost.transports import ssh  # Fabric costs 0.2 s, and only remote hosts need it

    return lambda request: ssh.act(host, "bench", request, SECONDS)


def compare(now: Ladder, baseline: Ladder, tolerance: float) -> tuple[Comparison, ...]:
    """Hold a ladder against an earlier one; a step holds when its throughput fell by no more than `tolerance`.

    Raises QwenhostError where they did not measure the same.
    """
    asked = [(ladder.model, ladder.input_tokens, ladder.output_tokens) for ladder in (now, baseline)]
    if asked[0] != asked[1]:
        raise QwenhostError(
            f"the baseline measured {asked[1]}, not {asked[0]}", hint="give the same model and lengths"
        )
    pairs = [(step, before) for step in now.steps if (before := baseline.at(step.concurrency))]
    return tuple(_comparison(step, before, tolerance) for step, before in pairs)


def _comparison(step: Step, before: Step, tolerance: float) -> Comparison:
    ratio = step.output_tokens_per_s / max(before.output_tokens_per_s, 1e-9)
    times = step.ttft_p99_ms / max(before.ttft_p99_ms, 1e-9)
    return Comparison(step.concurrency, ratio, times, ratio >= 1 - tolerance and step.failed <= before.failed)


def beside(ladder: Ladder, roofline: Roofline) -> Ladder:
    """Return a ladder with what was estimated of each step."""
    told = (
        roofline.output_tokens_per_s(step.concurrency, ladder.input_tokens, ladder.output_tokens)
        for step in ladder.steps
    )
    return replace(ladder, roofline=tuple(told))


def save(ladders: Sequence[Ladder], path: Path) -> None:
    """Write ladders as versioned JSON. Raises QwenhostError."""
    write(path, to_json(ladders))


def write(path: Path, text: str) -> None:
    """Write a result. Raises QwenhostError."""
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise QwenhostError(f"{path}: {error.strerror}") from error


def to_json(ladders: Sequence[Ladder]) -> str:
    """Return the versioned JSON form."""
    return json.dumps({"schema": SCHEMA, "ladders": [asdict(ladder) for ladder in ladders]}, indent=1)


def load_saved(path: Path) -> dict[str, Ladder]:
    """Read saved ladders by service. Raises QwenhostError."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.get("schema") != SCHEMA:
            raise BadData(f"{path}: schema {raw.get('schema')!r}, this version reads {SCHEMA}")
        read = [from_json(ladder) for ladder in raw["ladders"]]
    except OSError as error:
        raise QwenhostError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadData(f"{path}: no saved bench: {error}", hint="write one with qwenhost bench -o FILE") from error
    return {ladder.service: ladder for ladder in read}


def from_json(ladder: Mapping[str, Any]) -> Ladder:
    """Return a ladder of its JSON form. Raises KeyError and TypeError for another form."""
    lists = {
        "steps": tuple(Step(**step) for step in ladder["steps"]),
        "roofline": tuple(ladder.get("roofline", ())),
    }
    return Ladder(**{**ladder, **lists})
